"""The directives that reuse parts of a configuration: `_inherit_from`, `_copy` and `_delete_key`.

`x: ${inherit_from:path}` and `x: {_inherit_from: path, ...}` put what `path` holds in their place, below the
mapping's own keys, and remove the original; `copy` leaves it there. `_delete_key: a,b.c` then removes keys.
"""

import copy
import re
from typing import Any

from gymd.config.problems import MISSING, Key, Report, dotted, suggest

__all__ = ["apply_directives"]

INHERIT = "_inherit_from"
COPY = "_copy"
DELETE = "_delete_key"

_WHOLE_VALUE = re.compile(r"\$\{\s*(inherit_from|copy)\s*:\s*([^{}]+?)\s*\}")


def apply_directives(tree: dict[str, Any], report: Report) -> dict[str, Any]:
    """Returns the tree with every directive carried out; paths are looked up in the tree as it was given."""
    run = _Run(tree, report)
    result: dict[str, Any] = run.expand(tree, (), ())
    for path in run.moved:
        _remove(result, path)
    return result


class _Run:
    def __init__(self, tree: dict[str, Any], report: Report) -> None:
        self.tree = tree
        self.report = report
        self.moved: list[Key] = []

    def expand(self, node: Any, key: Key, trail: tuple[Key, ...]) -> Any:
        """Expands a node at `key`; `trail` holds the paths being copied, to notice circles."""
        if isinstance(node, str) and (match := _WHOLE_VALUE.fullmatch(node.strip())):
            return self._fetch(match[2], key, trail, moves=match[1] == "inherit_from")
        if isinstance(node, list):
            return [self.expand(item, (*key, f"[{at}]"), trail) for at, item in enumerate(node)]
        if not isinstance(node, dict):
            return node
        node = dict(node)
        for name in (INHERIT, COPY):
            if isinstance(path := node.pop(name, None), str):
                base = self._fetch(path, (*key, name), trail, moves=name == INHERIT, target=key)
                node = _overlay(base, node) if isinstance(base, dict) else (node or base)
                if not isinstance(node, dict):
                    return node
        deleted = node.pop(DELETE, None)
        for path in _names(deleted):
            if not _remove(node, tuple(path.split("."))):
                advice = suggest(path, map(str, node), label="There are")
                self.report.add((*key, DELETE), f"there is no {path!r} to delete.", advice)
        return {name: self.expand(value, (*key, str(name)), trail) for name, value in node.items()}

    def _fetch(
        self, path: str, key: Key, trail: tuple[Key, ...], *, moves: bool, target: Key | None = None
    ) -> Any:
        source = tuple(path.split("."))
        if source in trail:
            self.report.add(key, f"{path!r} ends up inheriting from itself.", "Break the circle.")
            return {}
        found, value = _lookup(self.tree, source)
        if not found:
            advice = suggest(path, _paths(self.tree, len(source)))
            self.report.add(key, f"there is no {path!r} to take over.", advice)
            return {}
        if moves:
            self.moved.append(source)
        expanded = self.expand(copy.deepcopy(value), source, (*trail, source))
        self.report.origins.copy(expanded, source, key if target is None else target)
        return expanded


def _overlay(base: dict[str, Any], top: dict[str, Any]) -> dict[str, Any]:
    """Merges `top` over `base`; as everywhere, `???` replaces nothing."""
    merged = dict(base)
    for name, value in top.items():
        below = merged.get(name)
        if isinstance(below, dict) and isinstance(value, dict):
            merged[name] = _overlay(below, value)
        elif value != MISSING or name not in merged:
            merged[name] = value
    return merged


def _names(value: Any) -> list[str]:
    parts = value.split(",") if isinstance(value, str) else value if isinstance(value, list) else []
    return [name for part in parts if (name := str(part).strip())]


def _lookup(node: Any, path: Key) -> tuple[bool, Any]:
    for name in path:
        if node == MISSING:
            break  # The mandatory value above is reported on its own.
        if not isinstance(node, dict) or name not in node:
            return False, None
        node = node[name]
    return True, node


def _remove(node: dict[str, Any], path: Key) -> bool:
    found, parent = _lookup(node, path[:-1])
    if not found or not isinstance(parent, dict) or path[-1] not in parent:
        return False
    del parent[path[-1]]
    return True


def _paths(node: Any, depth: int, key: Key = ()) -> list[str]:
    """The dotted keys down to a depth: what a mistyped path may have meant."""
    if not isinstance(node, dict) or depth == 0:
        return []
    return [
        text
        for name, child in node.items()
        for text in (dotted((*key, str(name))), *_paths(child, depth - 1, (*key, str(name))))
    ]
