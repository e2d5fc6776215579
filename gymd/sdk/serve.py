"""Serves one server class by itself: `python -m gymservers.resources.mcqa --daemon 127.0.0.1:50161`."""

from __future__ import annotations

import os
import secrets
import socket
import sys
from typing import Any

from gymd.sdk.base import Server

__all__ = ["serve"]


def serve(cls: type[Server]) -> None:
    """The command line of a server class; registers with a daemon as `remote`, or serves alone."""
    # Imported here: hosts import the SDK too, at every start, and have no command line.
    import click

    from gymd.logs import setup_host_logging
    from gymd.sdk.host import Bootstrap, ServerBlock, raise_file_limit, run_host, run_loop

    implementation = cls.__module__.split(".")[-2] if cls.__module__.endswith(".server") else cls.__name__

    @click.command(
        help=f"{(cls.__doc__ or cls.__name__).splitlines()[0]}\n\n"
        f"Example: python -m {cls.__module__.removesuffix('.server')} --daemon 127.0.0.1:50161"
    )
    @click.option("--name", default=implementation, show_default=True, help="Name under which peers call it.")
    @click.option("--listen", default="127.0.0.1:0", show_default=True, help="Port 0: any.")
    @click.option("--daemon", default="", help="Daemon to register with. Default: none, serve alone.")
    @click.option(
        "--config", type=click.Path(exists=True, dir_okay=False), help="YAML file with its own keys."
    )
    @click.option("--log-level", default="WARNING", show_default=True)
    def command(name: str, listen: str, daemon: str, config: str | None, log_level: str) -> None:
        setup_host_logging(log_level)
        raise_file_limit()
        block = ServerBlock(name, cls.kind, implementation, _entrypoint(cls), _read(config))
        # In containers on the machine's network all names are alike, and all process ids 1.
        host_id = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(3)}"
        bootstrap = Bootstrap(host_id, daemon, [block], [listen])
        code = run_loop(run_host(bootstrap, lifeline=False, announce=True))
        sys.stderr.flush()
        os._exit(code)  # a hung tool in a thread must not keep the process alive

    command()


def _entrypoint(cls: type[Server]) -> str:
    return f"{cls.__module__}:{cls.__name__}"


def _read(path: str | None) -> dict[str, Any]:
    if path is None:
        return {}
    from omegaconf import OmegaConf

    values: Any = OmegaConf.to_container(OmegaConf.load(path), resolve=True)
    if not isinstance(values, dict):
        raise SystemExit(f"{path} must hold keys and values")
    return values
