"""Runs the viewer until Ctrl-C: what `gymctl data view` and `gymctl rollouts view` have in common."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import signal
import socket
import stat
import sys
import threading
import webbrowser
from collections.abc import Sequence
from pathlib import Path

import click
from aiohttp import web

from gymctl.errors import CliError
from gymctl.options import Settings
from gymctl.output import note
from gymctl.viewer.library import Library
from gymctl.viewer.server import is_loopback, make_app

__all__ = ["view"]

_CLOSE_S = 1.0
_GZIP = b"\x1f\x8b"
_EVERY_ADDRESS = ("0.0.0.0", "::")
_ZSTD = b"\x28\xb5\x2f\xfd"


def view(
    settings: Settings,
    paths: Sequence[Path],
    *,
    kind: str,
    host: str,
    port: int,
    allow_remote: bool,
    open_browser: bool | None,
) -> None:
    """Serves the page until SIGINT or SIGTERM.

    Args:
        settings: of the command line.
        paths: files to show.
        kind: "tasks" or "rollouts".
        host: address to listen on.
        port: port to listen on; 0: any.
        allow_remote: whether the address may be one that other machines reach.
        open_browser: whether to open a browser; None: if somebody is at a desktop.

    Raises:
        CliError: a file cannot be shown, or the address cannot be used.
    """
    if not is_loopback(host) and not allow_remote:
        raise CliError(
            f"{host} can be reached from other machines, and everybody there could read these files",
            "If that is what you want, add --allow-remote. Otherwise forward the port: "
            f"ssh -L {port or 7860}:127.0.0.1:{port or 7860} THIS_MACHINE",
        )
    for path in paths:
        _check(path)
    asyncio.run(_serve(settings, paths, kind, host, port, open_browser))


def _check(path: Path) -> None:
    """Says early and plainly what is no JSONL file."""
    try:
        # Before it is opened: a pipe would wait for its writer.
        if not stat.S_ISREG(path.stat().st_mode):
            raise CliError(
                f"{path} is no regular file", "Rows are read when they are looked at: save it first."
            )
        with path.open("rb") as file:
            start = file.read(4)
    except FileNotFoundError:
        raise CliError(f"there is no file {path}", "Check the path.") from None
    except OSError as problem:
        hint = "Name a JSONL file that you may read."
        raise CliError(f"cannot read {path}: {problem.strerror}", hint) from None
    if start.startswith((_GZIP, _ZSTD)):
        raise CliError(f"{path} is compressed", "Unpack it first, for example with gunzip or unzstd.")


async def _serve(
    settings: Settings, paths: Sequence[Path], kind: str, host: str, port: int, open_browser: bool | None
) -> None:
    told = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, told.set)
    library = Library(paths, kind)
    library.start()
    try:
        runner = web.AppRunner(make_app(library, host), access_log=None, shutdown_timeout=_CLOSE_S)
        await runner.setup()
        try:
            url = await _listen(runner, host, port)
            _announce(settings, url, paths)
            if open_browser or (open_browser is None and _at_desktop()):
                _open_browser(url)
            await told.wait()
        finally:
            await runner.cleanup()
    finally:
        await library.close()


async def _listen(runner: web.AppRunner, host: str, port: int) -> str:
    """Starts to listen; returns the URL."""
    # localhost may stand for two addresses, which would get two ports.
    address = "127.0.0.1" if host == "localhost" else host
    try:
        await web.TCPSite(runner, address, port).start()
    except OSError as problem:
        if problem.errno == errno.EADDRINUSE:
            raise CliError(
                f"port {port} of {host} is in use, maybe by another viewer",
                f"Choose another with --port {port + 1}, or let one be chosen with --port 0.",
            ) from None
        if problem.errno == errno.EACCES:
            raise CliError(f"port {port} is not for everybody", "Choose one from 1024 on.") from None
        raise CliError(
            f"cannot listen on {host}: {problem.strerror or problem}",
            "Name an address of this machine with --host.",
        ) from None
    chosen = runner.addresses[0][1]
    shown = socket.gethostname() if address in _EVERY_ADDRESS else address
    return f"http://[{shown}]:{chosen}/" if ":" in shown else f"http://{shown}:{chosen}/"


def _announce(settings: Settings, url: str, paths: Sequence[Path]) -> None:
    if settings.output_format == "json":
        # One line, so that a script can read it while the viewer runs.
        click.echo(json.dumps({"url": url, "files": [str(path) for path in paths]}, ensure_ascii=False))
    else:
        click.echo(url)
        note(f"Showing {', '.join(path.name for path in paths)}. Press Ctrl-C to stop.")
    sys.stdout.flush()


def _open_browser(url: str) -> None:
    # In a thread of its own: some browsers do not return until they are left.
    threading.Thread(target=webbrowser.open, args=(url,), name="browser", daemon=True).start()


def _at_desktop() -> bool:
    """Whether a window can be expected to open in front of the person who typed the command."""
    if not sys.stdout.isatty() or os.environ.get("SSH_CONNECTION"):
        return False
    return sys.platform == "darwin" or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
