"""`gymctl servers`: what the registry knows, and what can be done about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from gymctl.errors import CliError
from gymctl.options import Group, Settings, address_option, common, with_client
from gymctl.output import Column, note, show, show_json

if TYPE_CHECKING:
    from gymapi.v1.registry_service_pb2 import Server

__all__ = ["SERVER_COLUMNS", "server_document", "server_row", "servers"]

SERVER_COLUMNS: list[Column] = [
    "NAME",
    "KIND",
    "STATE",
    "PLACEMENT",
    "ADDRESS",
    ("PID", "right"),
    ("RESTARTS", "right"),
    "AGE",
    ("CONDITION", "fold"),
]


@click.group(cls=Group, short_help="Look at servers, restart them, drain them.")
def servers() -> None:
    """Look at the servers of a running daemon, restart them, drain them.

    \b
    Example:
      gymctl servers list
    """


@servers.command("list", short_help="List the servers.")
@click.option("--kind", type=click.Choice(["model", "agent", "resources"]), help="Only servers of this kind.")
@address_option
@common
@click.pass_obj
def list_(settings: Settings, kind: str | None) -> None:
    """List the servers, draining and unhealthy ones included.

    \b
    Example:
      gymctl servers list --kind agent -o json
    """
    number = {None: 0, "model": 1, "agent": 2, "resources": 3}[kind]
    listed = with_client(settings, lambda client: client.list_servers(kind=number))
    document = [server_document(server) for server in listed.servers]
    show(settings.output_format, document, SERVER_COLUMNS, [server_row(one) for one in document])


@servers.command(short_help="Print all facts of a server.")
@click.argument("name")
@address_option
@common
@click.pass_obj
def describe(settings: Settings, name: str) -> None:
    """Print everything the registry knows about a server and its replicas.

    \b
    Example:
      gymctl servers describe policy_model
    """
    found = _named(settings, name)
    document = [server_document(server) for server in found]
    if settings.output_format == "json":
        show_json(document)
        return
    for one in document:
        rows = [(key.replace("_", " "), _cell(value)) for key, value in one.items()]
        show("table", None, ["FIELD", ("VALUE", "fold")], rows)


@servers.command(short_help="Print the last lines of a server's log.")
@click.argument("name")
@click.option("-n", "--lines", type=click.IntRange(1, 2000), default=100, show_default=True, help="How many.")
@address_option
@common
@click.pass_obj
def logs(settings: Settings, name: str, lines: int) -> None:
    """Print the last lines that a server wrote to stderr.

    \b
    Example:
      gymctl servers logs policy_model --lines 20
    """
    found = with_client(settings, lambda client: client.server_logs(name, lines))
    if settings.output_format == "json":
        show_json([{"host_id": log.host_id, "pid": log.pid, "lines": list(log.lines)} for log in found])
        return
    for log in found:
        if len(found) > 1:
            note(f"--- {log.host_id} (pid {log.pid})")
        for line in log.lines:
            click.echo(line)


@servers.command(short_help="Restart the process of a server.")
@click.argument("name")
@address_option
@common
@click.pass_obj
def restart(settings: Settings, name: str) -> None:
    """Restart the process of a server; servers that share the process restart with it.

    \b
    Example:
      gymctl servers restart policy_model
    """
    names = with_client(settings, lambda client: client.restart_server(name))
    show(settings.output_format, {"restarted": names}, ["RESTARTED"], [(one,) for one in names])


@servers.command(short_help="Give a server no new work.")
@click.argument("name")
@address_option
@common
@click.pass_obj
def drain(settings: Settings, name: str) -> None:
    """Stop giving a server new work; work under way goes on.

    \b
    Example:
      gymctl servers drain old_policy
    """
    found = with_client(settings, lambda client: client.drain_server(name))
    document = [server_document(server) for server in found]
    show(settings.output_format, document, SERVER_COLUMNS, [server_row(one) for one in document])


def _named(settings: Settings, name: str) -> list[Server]:
    listed = with_client(settings, lambda client: client.list_servers())
    found = [server for server in listed.servers if server.name == name]
    if not found:
        import difflib

        names = sorted({server.name for server in listed.servers})
        close = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
        hint = f"Did you mean {close[0]}?" if close else "See what is there: gymctl servers list"
        raise CliError(f"no server is called {name}", hint)
    return found


def server_document(server: Server) -> dict[str, Any]:
    """A server as JSON: stable names, words for enums, null for what is not known."""
    from gymapi.v1 import registry_service_pb2 as registry

    registered = server.HasField("register_time")
    capabilities = server.capabilities
    return {
        "name": server.name,
        "kind": registry.ServerKind.Name(server.kind).removeprefix("SERVER_KIND_").lower(),
        "state": registry.ServerState.Name(server.state).removeprefix("SERVER_STATE_").lower(),
        "condition": server.condition or None,
        "placement": registry.Placement.Name(server.placement).removeprefix("PLACEMENT_").lower(),
        "address": server.address or None,
        "implementation": capabilities.implementation or None,
        "server_id": server.server_id,
        "host_id": server.host_id or None,
        "pid": server.pid or None,
        "restart_count": server.restart_count,
        "register_time": server.register_time.ToJsonString() if registered else None,
        "link": capabilities.link,
        "max_concurrency": capabilities.max_concurrency or None,
        "labels": dict(sorted(server.labels.items())),
    }


def server_row(document: dict[str, Any]) -> tuple[Any, ...]:
    """The cells of SERVER_COLUMNS for a document."""
    keys = ("name", "kind", "state", "placement", "address", "pid", "restart_count")
    cells = ["-" if document[key] is None else document[key] for key in keys]
    return (*cells, age(document["register_time"]), document["condition"] or "")


def age(timestamp: str | None) -> str:
    """How long ago, for people; `-` if never."""
    from datetime import UTC, datetime

    from gymctl.output import seconds

    if timestamp is None:
        return "-"
    # Nine digits of a second are more than datetime reads before Python 3.11's leniency ends.
    moment = datetime.fromisoformat(timestamp.replace("Z", "+00:00"))
    return seconds(max(1.0, round((datetime.now(UTC) - moment).total_seconds()))).replace(".00", "")


def _cell(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key}={item}" for key, item in value.items()) or "-"
    return "-" if value is None else str(value)
