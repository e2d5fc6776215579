"""`gymctl version`."""

from __future__ import annotations

import click

from gymctl.options import Settings, common
from gymctl.output import show

__all__ = ["version"]

_PACKAGES = ("gymd", "grpcio", "protobuf", "pydantic", "aiohttp", "xllamacpp")


@click.command(short_help="Print versions.")
@common
@click.pass_obj
def version(settings: Settings) -> None:
    """Print the versions of gymd, Python and the libraries that matter.

    \b
    Example:
      gymctl version -o json
    """
    import platform
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import version as version_of

    found: dict[str, str | None] = {}
    for package in _PACKAGES:
        try:
            found[package] = version_of(package)
        except PackageNotFoundError:
            found[package] = None
    found["python"] = platform.python_version()
    found["platform"] = platform.platform()
    rows = [(name, value or "not installed") for name, value in found.items()]
    show(settings.output_format, found, ["COMPONENT", "VERSION"], rows)
