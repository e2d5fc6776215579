"""`gymctl ask`: one conversation with an agent, to see it work."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import click

from gymctl.errors import CliError
from gymctl.options import Settings, address_option, common, with_client
from gymctl.output import note, show_json

if TYPE_CHECKING:
    from gymapi.v1.responses_pb2 import Response
    from gymd.client import RolloutClient

__all__ = ["ask", "call_text", "print_items", "text_of"]


@click.command(short_help="Ask a running agent one question.")
@click.argument("agent")
@click.argument("text")
@click.option("--system", metavar="TEXT", help="System message in front.")
@click.option(
    "--tools",
    "resources",
    metavar="SERVER",
    help="Resources server whose tools to offer.  [default: the only one there is]",
)
@click.option("--no-tools", is_flag=True, help="Offer no tools.")
@click.option("--param", "params", multiple=True, metavar="KEY=VALUE", help="Set a create param. Repeatable.")
@click.option("--timeout", default=600.0, show_default=True, metavar="SECONDS", help="Longest wait.")
@address_option
@common
@click.pass_obj
def ask(
    settings: Settings,
    agent: str,
    text: str,
    system: str | None,
    resources: str | None,
    no_tools: bool,
    params: tuple[str, ...],
    timeout: float,
) -> None:
    """Ask a running agent one question and print the conversation turn by turn.

    TEXT may be - to read stdin. Nothing is verified and nothing is written. With -o json, the Responses
    object is printed.

    \b
    Examples:
      gymctl ask simple_agent "What is the weather in Bonn?"
      gymctl ask simple_agent "Explain tides" --no-tools --param temperature=0.2 -o json
    """
    from gymctl.collect.plan import parse_overrides

    if text == "-":
        text = sys.stdin.read()
    create: dict[str, Any] = {"input": [{"role": "user", "content": text}]}
    if system:
        create["input"].insert(0, {"role": "system", "content": system})
    create |= parse_overrides(params)

    async def converse(client: RolloutClient) -> Response:
        from gymd.convert import params_from_json, validate_params

        if problems := validate_params(create):
            raise CliError("the params are not valid", "Correct --param.", problems)
        listed = await client.list_servers()
        _check_agent(agent, listed)
        message = params_from_json(create)
        offered = "" if no_tools or message.tools else resources or _only_resources(listed)
        for tool in await client.list_tools(offered) if offered else ():
            message.tools.add().function.CopyFrom(tool)
        return await client.ask_agent(agent, message, timeout=timeout)

    response = with_client(settings, converse)
    from gymd.convert import response_to_json

    document = response_to_json(response)
    if settings.output_format == "json":
        show_json(document)
        return
    print_items(document.get("output") or [])
    usage = document.get("usage") or {}
    note(
        f"{document.get('status') or 'ended'}, {usage.get('input_tokens', '?')} tokens in, "
        f"{usage.get('output_tokens', '?')} out"
    )


def _check_agent(agent: str, listed: Any) -> None:
    from gymapi.v1.registry_service_pb2 import SERVER_KIND_AGENT

    names = sorted({server.name for server in listed.servers if server.kind == SERVER_KIND_AGENT})
    if agent not in names:
        from gymctl.collect.plan import nearest

        raise CliError(f"no agent is called {agent!r}", nearest(agent, names))


def _only_resources(listed: Any) -> str:
    from gymapi.v1.registry_service_pb2 import SERVER_KIND_RESOURCES

    names = {server.name for server in listed.servers if server.kind == SERVER_KIND_RESOURCES}
    return names.pop() if len(names) == 1 else ""


def print_items(items: list[dict[str, Any]]) -> None:
    """Prints conversation items for people: who, and what was said, called or answered."""
    for item in items:
        kind = item.get("type") or "message"
        if kind == "message":
            _say(str(item.get("role") or "assistant"), "green", text_of(item.get("content")))
        elif kind == "function_call":
            _say("tool call", "cyan", call_text(item))
        elif kind == "function_call_output":
            _say("result", "blue", text_of(item.get("output")))
        elif kind == "reasoning":
            _say("reasoning", "bright_black", text_of(item.get("summary") or item.get("content")))
        else:
            _say(kind, "yellow", json.dumps(item, ensure_ascii=False))


def _say(who: str, colour: str, text: str) -> None:
    lines = text.splitlines() or [""]
    click.echo(f"{click.style(f'{who:>10}', fg=colour, bold=True)}  {lines[0]}")
    for line in lines[1:]:
        click.echo(f"{'':10}  {line}")


def text_of(content: Any) -> str:
    """The text of a content: a string, or parts."""
    if isinstance(content, str):
        return content
    parts = [part for part in content or () if isinstance(part, dict)]
    return "\n".join(
        str(part.get("text") or part.get("refusal") or f"[{part.get('type')}]") for part in parts
    )


def call_text(item: dict[str, Any]) -> str:
    """A function call as people write it: get_weather(city="Bonn"); other arguments stay as they are."""
    text = item.get("arguments")
    try:
        values = json.loads(text) if isinstance(text, str) else None
    except ValueError:
        values = None
    if isinstance(values, dict):
        text = ", ".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in values.items())
    return f"{item.get('name')}({text})"
