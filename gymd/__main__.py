"""The `gymd` command: configuration in, a running daemon out.

    gymd -c mesh.yaml policy_api_key=...     run until SIGINT or SIGTERM

Prints one line of JSON on stdout when it is ready; everything else goes to stderr or to --log-file.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gymd import __version__

if TYPE_CHECKING:
    from gymd.config import GymConfig
    from gymd.daemon.app import Daemon
    from gymd.daemon.process import HostProcess

__all__ = ["main"]

EXIT_OK = 0
EXIT_FAILED = 1


def main() -> None:
    """Entry point of the `gymd` command."""
    sys.exit(_main(sys.argv[1:]))


def _main(arguments: Sequence[str]) -> int:
    # Intermixed, because overrides may stand before, between and after the options.
    options = _parser().parse_intermixed_args(arguments)
    try:
        import uvloop
    except ImportError:  # no wheel for this platform
        return asyncio.run(_start(options))
    return uvloop.run(_start(options))


async def _start(options: argparse.Namespace) -> int:
    """Loads the configuration and serves it; a first host loads meanwhile, on another core."""
    from gymd.daemon.process import start_spare

    signals = _Signals()
    if options.stdin_lifeline:
        _watch_stdin(signals.told)
    spare: HostProcess | None = await start_spare()
    try:
        from gymd.config import ConfigError, load_config
        from gymd.errors import GymdError
        from gymd.logs import setup_logging

        try:
            config = load_config(options.config, options.overrides)
            setup_logging(options.log_level or config.daemon.log_level, options.log_file)
            daemon = _daemon(config, options, spare)
            spare = None  # the daemon's now
            signals.again = daemon.hurry
            return await _serve(daemon, options, signals.told)
        except (ConfigError, GymdError) as failure:
            sys.stderr.write(f"gymd: {failure}\n")
        except OSError as failure:
            sys.stderr.write(f"gymd: {failure.strerror}: {failure.filename}\n")
        return EXIT_FAILED
    finally:
        if spare is not None:
            spare.kill()
            await spare.wait()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="gymd",
        description="Runs the servers of a configuration and streams scored rollouts to trainers.",
        epilog="Example: gymd -c mesh.yaml gymd.listen=127.0.0.1:0 --wait-ready",
    )
    parser.add_argument("overrides", nargs="*", metavar="key=value", help="override a key of the files")
    parser.add_argument(
        "-c", "--config", action="append", default=[], metavar="FILE", help="a configuration file; repeatable"
    )
    parser.add_argument(
        "--wait-ready", action="store_true", help="say ready only when every server is; exit 1 if one fails"
    )
    parser.add_argument(
        "--stdin-lifeline",
        action="store_true",
        help="stop in order when stdin ends, as it does when the process that holds its other end dies",
    )
    parser.add_argument("--log-file", type=Path, metavar="FILE", help="append JSON log lines to this file")
    parser.add_argument(
        "--log-level", choices=["debug", "info", "warning", "error"], help="default: gymd.log_level"
    )
    parser.add_argument(
        "--allow-remote",
        action="store_true",
        help="listen on addresses that other machines reach; nothing is encrypted or authenticated",
    )
    parser.add_argument("--version", action="version", version=f"gymd {__version__}")
    return parser


def _daemon(config: GymConfig, options: argparse.Namespace, spare: HostProcess | None) -> Daemon:
    from gymd.daemon.app import Daemon

    return Daemon(config, allow_remote=options.allow_remote, spare=spare)


class _Signals:
    """SIGINT and SIGTERM: the first says stop, the second says now."""

    def __init__(self) -> None:
        self.told = asyncio.Event()
        self.again: Callable[[], None] = lambda: None
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, self._on_signal)

    def _on_signal(self) -> None:
        if self.told.is_set():
            self.again()
        self.told.set()


def _watch_stdin(told: asyncio.Event) -> None:
    """Sets `told` when stdin ends."""
    loop = asyncio.get_running_loop()
    if sys.stdin is None:  # closed from the start; its number may be a file of the loop's by now
        told.set()
        return

    def until_end() -> None:
        with contextlib.suppress(OSError):  # a terminal that went away: an end too
            while os.read(0, 4096):
                pass
        with contextlib.suppress(RuntimeError):  # the loop is closed: the daemon has stopped meanwhile
            loop.call_soon_threadsafe(told.set)

    # A thread, because a loop watches only pipes, and stdin may be anything.
    threading.Thread(target=until_end, name="stdin-lifeline", daemon=True).start()


async def _serve(daemon: Daemon, options: argparse.Namespace, told: asyncio.Event) -> int:
    # Tens of thousands of rollouts in flight, or taken over from the last daemon, are no garbage; to look
    # through them often costs a third.
    gc.set_threshold(50_000, 20, 50)
    await daemon.start()
    gc.collect()
    gc.freeze()
    try:
        if options.wait_ready and not await _wait_ready(daemon, told):
            return EXIT_FAILED
        if not told.is_set():
            _say({"event": "ready", "address": daemon.address, "pid": os.getpid()})
        await told.wait()
    finally:
        await daemon.stop()
    return EXIT_OK


async def _wait_ready(daemon: Daemon, told: asyncio.Event) -> bool:
    """Waits for the servers, or for a signal; False if a server failed for good, which it then says."""
    ready = asyncio.ensure_future(daemon.wait_ready())
    stop = asyncio.ensure_future(told.wait())
    try:
        await asyncio.wait([ready, stop], return_when=asyncio.FIRST_COMPLETED)
        failed = ready.result() if ready.done() else []
    finally:
        ready.cancel()
        stop.cancel()
    if failed:
        servers = [{"server": server.name, "condition": server.condition} for server in failed]
        _say({"event": "failed", "servers": servers})
        for server in failed:
            sys.stderr.write(f"gymd: {server.name}: {server.condition}\n")
    return not failed


def _say(event: dict[str, Any]) -> None:
    import orjson

    sys.stdout.write(orjson.dumps(event).decode() + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
