"""What the two stores have in common: their optional packages, patience, and nearest names."""

from __future__ import annotations

import difflib
import importlib
import time
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from gymctl.errors import CliError

__all__ = ["is_unreachable", "nearest", "need", "patient"]

Result = TypeVar("Result")

_PAUSES_S = (0.5, 1.0, 2.0)
# The HTTP libraries below the clients; huggingface_hub changed its own twice.
_HTTP_LIBRARIES = frozenset({"httpx", "httpx2", "httpcore", "httpcore2", "requests", "urllib3", "aiohttp"})
_SHOWN_NAMES = 5


def need(module: str, package: str) -> Any:
    """Imports a package of the `data` extra.

    Raises:
        CliError: it is not installed.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as problem:
        if (problem.name or "").partition(".")[0] != module.partition(".")[0]:
            raise
        raise CliError(
            f"this needs {package}, which is not installed",
            "Install it: pip install 'gymd[data]'",
        ) from None


def is_unreachable(problem: BaseException) -> bool:
    """Whether a failure of a client means that nobody answered, rather than what was answered."""
    if getattr(problem, "response", None) is not None:
        return False
    if isinstance(problem, ConnectionError | TimeoutError):
        return True
    return any(kind.__module__.partition(".")[0] in _HTTP_LIBRARIES for kind in type(problem).__mro__)


def patient(call: Callable[[], Result], is_passing: Callable[[Exception], bool]) -> Result:
    """Calls something that may be called twice, again after failures that pass."""
    for pause in _PAUSES_S:
        try:
            return call()
        except Exception as problem:
            if not is_passing(problem):
                raise
        time.sleep(pause)
    return call()


def nearest(name: str, known: Iterable[str], what: str) -> str:
    """A hint: the names closest to one that is not there, or the first ones there are."""
    names = sorted(set(known))
    if not names:
        return ""
    folded = {one.lower(): one for one in names}
    close = [folded[one] for one in difflib.get_close_matches(name.lower(), folded, _SHOWN_NAMES, 0.5)]
    if close:
        return f"Nearest: {', '.join(close)}."
    more = f" and {len(names) - _SHOWN_NAMES} more" if len(names) > _SHOWN_NAMES else ""
    return f"{what}: {', '.join(names[:_SHOWN_NAMES])}{more}."
