"""What every program finds imported: all names of these modules, in this order, then the modules themselves.

Programs of the published datasets rely on it (`List`, `defaultdict`, `math` without an import). To import all
takes longer than most programs run. So only those modules are imported of which a program mentions a name;
the others it cannot miss.
"""

from __future__ import annotations

import functools
import importlib
import re

__all__ = ["MODULES", "needed_modules"]

MODULES = (
    *("string", "re", "datetime", "collections", "heapq", "bisect", "copy", "math", "random", "statistics"),
    *("itertools", "functools", "operator", "io", "sys", "json", "builtins", "typing"),
)
"""Later ones win: `open` is that of builtins, not of io."""

_NAME = re.compile(r"[^\W\d]\w*")
_SEES_ALL_NAMES = frozenset({"eval", "exec", "globals", "locals", "vars", "dir"})
"""Who uses these may look for names that stand nowhere in the text."""
_ALWAYS = ("sys", "builtins")


def needed_modules(code: str) -> tuple[str, ...]:
    """The modules of which a program may use a name without having imported it, in order."""
    mentioned = set(_NAME.findall(code))
    if mentioned & _SEES_ALL_NAMES:
        return MODULES
    names = _names()
    return tuple(name for name in MODULES if name in _ALWAYS or not names[name].isdisjoint(mentioned))


@functools.cache
def _names() -> dict[str, frozenset[str]]:
    """What `from module import *` brings, and the module's own name."""
    found = {}
    for name in MODULES:
        module = importlib.import_module(name)
        public = getattr(module, "__all__", None) or [key for key in vars(module) if not key.startswith("_")]
        found[name] = frozenset((*public, name))
    return found
