"""`gymctl up`, `down` and `status`: the daemon of this machine."""

from __future__ import annotations

import signal
import sys
import time
from typing import TYPE_CHECKING, Any

import click

from gymctl.errors import CliError
from gymctl.options import Settings, address_option, common, daemon_address, with_client
from gymctl.output import note, seconds, show, show_json
from gymctl.state import is_alive, is_daemon, read_daemon_file

if TYPE_CHECKING:
    from gymapi.v1.registry_service_pb2 import ListServersResponse
    from gymctl.launch import DaemonProcess
    from gymd.client import RolloutClient

__all__ = ["down", "status", "up"]

_POLL_S = 0.05


@click.command()
@click.option("-c", "--config", "configs", multiple=True, metavar="FILE", help="Configuration. Repeatable.")
@click.option("-d", "--detach", is_flag=True, help="Leave it running; return when every server is ready.")
@click.argument("overrides", nargs=-1, metavar="[KEY=VALUE]...")
@common
@click.pass_obj
def up(settings: Settings, configs: tuple[str, ...], detach: bool, overrides: tuple[str, ...]) -> int:
    """Start the daemon and the servers of a configuration.

    Runs until Ctrl-C, which stops everything; with --detach it goes on in the background and `gymctl down`
    stops it. FILE is a path, or the name of a built-in server. With -o json, one JSON document is printed
    when everything is ready.

    \b
    Examples:
      gymctl up --config servers.yaml
      gymctl up --config servers.yaml --detach policy_base_url=http://localhost:8000/v1
      gymctl up --config example_single_tool_call --config openai_model
    """
    for setting in overrides:
        if "=" not in setting and not setting.startswith("~"):
            raise click.UsageError(f"{setting!r} is not KEY=VALUE. For a file write --config {setting}")
    from gymctl.launch import DaemonProcess, interrupt_on_signals, log_path

    interrupt_on_signals()
    log_file = log_path() if detach else None
    daemon = DaemonProcess(configs, overrides, log_file=log_file, debug=settings.debug)
    try:
        spent = daemon.wait_ready()
        if not detach:
            return _stay(settings, daemon, spent)
    except KeyboardInterrupt:
        note("Stopping.")
        daemon.stop()
        note("Stopped.")
        return 0 if daemon.address and not detach else 1
    except BaseException:
        daemon.stop()
        raise
    _show_json_facts(settings, daemon, spent)
    facts = f"pid {daemon.pid}, {seconds(spent)}"
    note(f"gymd is ready at {daemon.address} ({facts}); log: {daemon.log_file}")
    note("See its servers: gymctl status    Stop it: gymctl down")
    return 0


def _stay(settings: Settings, daemon: DaemonProcess, spent: float) -> int:
    """Shows what runs and waits until it ends by itself."""
    _show_json_facts(settings, daemon, spent)
    settings.address = daemon.address
    if settings.output_format != "json":
        _show_servers(with_client(settings, lambda client: client.list_servers()))
    note(f"gymd is ready at {daemon.address} (pid {daemon.pid}, {seconds(spent)}). Ctrl-C stops everything.")
    code = daemon.wait()
    daemon.release()
    if code:
        raise CliError(f"the daemon ended with code {code}", "What it said last stands above.")
    note("The daemon was stopped.")
    return 0


def _show_json_facts(settings: Settings, daemon: DaemonProcess, spent: float) -> None:
    if settings.output_format == "json":
        log_file = str(daemon.log_file) if daemon.log_file else None
        facts = {
            "address": daemon.address,
            "pid": daemon.pid,
            "seconds": round(spent, 3),
            "log_file": log_file,
        }
        show_json(facts)
        sys.stdout.flush()


@click.command(short_help="Stop the daemon and its servers.")
@click.option("--now", is_flag=True, help="Do not let rollouts under way finish.")
@click.option(
    "--timeout", default=60.0, show_default=True, metavar="SECONDS", help="How long to wait for it."
)
@address_option
@common
@click.pass_obj
def down(settings: Settings, now: bool, timeout: float) -> None:
    """Stop the daemon and its servers; rollouts under way may finish within its grace.

    Succeeds if none runs here. With --address, one must answer there.

    \b
    Example:
      gymctl down
    """
    found = _running(settings)
    if found is None:
        if settings.output_format == "json":
            show_json({"stopped": False, "servers": []})
        note("No daemon runs here.")
        return
    address, pid, names = found
    import os

    os.kill(pid, signal.SIGTERM)
    if now:
        time.sleep(_POLL_S)  # two signals of a kind at once would arrive as one
        os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + timeout
    while is_alive(pid):
        if time.monotonic() > deadline:
            hint = "Wait, or run `gymctl down --now`."
            raise CliError(f"the daemon (pid {pid}) is still stopping after {seconds(timeout)}", hint)
        time.sleep(_POLL_S)
    if settings.output_format == "json":
        show_json({"stopped": True, "address": address, "pid": pid, "servers": names})
    else:
        servers = f" with {len(names)} servers: {', '.join(names)}" if names else ""
        click.echo(f"Stopped gymd at {address} (pid {pid}){servers}")


def _running(settings: Settings) -> tuple[str, int, list[str]] | None:
    """Address, process id and servers of the daemon; None: none runs.

    Raises:
        CliError: the process id is no daemon of this machine, so nothing may be sent to it.
    """
    import os

    from gymctl.options import ADDRESS_VARIABLE

    named = settings.address or os.environ.get(ADDRESS_VARIABLE)
    found = None if named else read_daemon_file()
    if not named and found is None:
        return None
    from gymd.errors import Unavailable

    settings.address = named or (found.address if found else None)
    pid = found.pid if found else 0
    names: list[str] = []
    try:
        listed = with_client(settings, lambda client: client.list_servers())
        pid = pid or listed.daemon.pid
        names = sorted({server.name for server in listed.servers})
    except Unavailable:
        if named:
            raise
    if not is_alive(pid):
        return None
    if not is_daemon(pid):
        text = f"process {pid} is no gymd daemon of this machine"
        raise CliError(text, "Stop the daemon where it runs, or name another with --address.")
    return settings.address or "", pid, names


@click.command()
@address_option
@common
@click.pass_obj
def status(settings: Settings) -> int:
    """Show the daemon and its servers. Exits with 1 if none runs, it drains, something keeps it from
    working as it should, or a server is not ready.

    \b
    Example:
      gymctl status -o json
    """
    from gymctl.servers import server_document

    listed, sessions = with_client(settings, _ask_status)
    servers = [server_document(server) for server in listed.servers]
    facts = listed.daemon
    if settings.output_format == "json":
        daemon = {
            "address": facts.address or daemon_address(settings),
            "pid": facts.pid,
            "version": facts.version,
            "start_time": facts.start_time.ToJsonString(),
            "draining": facts.draining,
            "default_agent": facts.default_agent or None,
            "condition": facts.condition or None,
        }
        show_json({"daemon": daemon, "servers": servers, "sessions": sessions})
    else:
        from gymctl.servers import age

        state = "draining" if facts.draining else "ready"
        up_for = age(facts.start_time.ToJsonString())
        click.echo(f"gymd {facts.version} at {facts.address}, pid {facts.pid}, {state}, up for {up_for}")
        if facts.condition:
            click.echo(f"condition: {facts.condition}")
        if facts.default_agent:
            click.echo(f"default agent: {facts.default_agent}")
        for one in sessions:
            counts = f"{one['running']:,} running, {one['queued']:,} queued, {one['done']:,} done"
            click.echo(f"session of {one['client_name'] or 'a client without a name'}: {counts}")
        click.echo()
        _show_servers(listed)
    healthy = not facts.draining and not facts.condition
    return 0 if healthy and all(one["state"] == "ready" for one in servers) else 1


async def _ask_status(client: RolloutClient) -> tuple[ListServersResponse, list[dict[str, Any]]]:
    listed = await client.list_servers()
    sessions = [
        {
            "session_id": session.session_id,
            "client_name": session.client_name,
            "open_time": session.open_time.ToJsonString(),
            "running": session.progress.running_count,
            "queued": session.progress.queued_count,
            "done": session.progress.done_count,
        }
        for session in await client.list_sessions()
    ]
    return listed, sessions


def _show_servers(listed: ListServersResponse) -> None:
    from gymctl.servers import SERVER_COLUMNS, server_document, server_row

    documents = [server_document(server) for server in listed.servers]
    show("table", None, SERVER_COLUMNS, [server_row(one) for one in documents])
