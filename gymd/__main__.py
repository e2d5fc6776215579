"""The `gymd` command: configuration in, a running daemon out.

    gymd -c mesh.yaml policy_api_key=...     run until SIGINT or SIGTERM

Prints one line of JSON on stdout when it is ready; everything else goes to stderr or to --log-file.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gymd import __version__

if TYPE_CHECKING:
    from gymd.config import GymConfig

__all__ = ["main"]

EXIT_OK = 0
EXIT_FAILED = 1


def main() -> None:
    """Entry point of the `gymd` command."""
    sys.exit(_main(sys.argv[1:]))


def _main(arguments: Sequence[str]) -> int:
    options = _parser().parse_args(arguments)
    from gymd.config import ConfigError, load_config
    from gymd.errors import GymdError
    from gymd.logs import setup_logging

    try:
        config = load_config(options.config, options.overrides)
        level = options.log_level or config.daemon.log_level
        setup_logging(level, options.log_file)
        return _run(config, options)
    except (ConfigError, GymdError) as failure:
        sys.stderr.write(f"gymd: {failure}\n")
    except OSError as failure:
        sys.stderr.write(f"gymd: {failure.strerror}: {failure.filename}\n")
    return EXIT_FAILED


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


def _run(config: GymConfig, options: argparse.Namespace) -> int:
    try:
        import uvloop
    except ImportError:  # no wheel for this platform
        return asyncio.run(_serve(config, options))
    return uvloop.run(_serve(config, options))


async def _serve(config: GymConfig, options: argparse.Namespace) -> int:
    from gymd.daemon.app import Daemon

    daemon = Daemon(config, allow_remote=options.allow_remote)
    told = asyncio.Event()

    def on_signal() -> None:
        if told.is_set():
            daemon.hurry()  # the second time: stop now
        told.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, on_signal)
    await daemon.start()
    try:
        if options.wait_ready and not await _wait_ready(daemon, told):
            return EXIT_FAILED
        if not told.is_set():
            _say({"event": "ready", "address": daemon.address, "pid": os.getpid()})
        await told.wait()
    finally:
        await daemon.stop()
    return EXIT_OK


async def _wait_ready(daemon: Any, told: asyncio.Event) -> bool:
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
