"""Resolves `${...}` references and finds `???` values, all of them before saying a word."""

import difflib
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from gymd.config.problems import MISSING, Key, Origins, Report, dotted

if TYPE_CHECKING:
    from omegaconf import DictConfig, ListConfig

__all__ = ["fill_from_environment", "references", "resolve"]

# A reference to a key (not to a resolver such as oc.env): the whole path, then its first name.
_REFERENCE = re.compile(r"(?<!\\)\$\{\s*(?P<path>(?P<root>[^\s{}.:\[\]]+)[^\s{}:]*)\s*\}")
_ENVIRONMENT = re.compile(r"\$\{\s*oc\.env\s*:\s*([^\s,{}]+)")

MAX_DEPTH = 64
"""Deeper than any sane configuration: two mappings that contain each other."""


def references(tree: Any) -> set[str]:
    """The first names of all keys that references in a tree point at."""
    return {match["root"] for text in _strings(tree) for match in _REFERENCE.finditer(text)}


def fill_from_environment(tree: dict[str, Any], environ: Mapping[str, str], origins: Origins) -> None:
    """Adds, in place, what is referred to but not set, from the environment (POLICY_API_KEY and the like)."""
    wanted = references(tree) | {name for name, value in tree.items() if value == MISSING}
    for name in sorted(wanted):
        # POLICY_API_KEY for a placeholder, and ${OPENAI_API_KEY} as it stands.
        variable = name.upper()
        if tree.get(name, MISSING) == MISSING and environ.get(variable):
            # A "${" in a secret is no reference.
            tree[name] = environ[variable].replace("${", "\\${")
            origins.record(tree[name], f"environment variable {variable}", (name,))


def resolve(tree: dict[str, Any], report: Report, *, only: str | None = None) -> dict[str, Any]:
    """Returns the tree with references replaced by values, as plain Python.

    Every value that is missing or cannot be resolved is reported and becomes None. With `only`, other
    top-level keys are left out (but can be referred to).
    """
    from omegaconf import OmegaConf

    config = OmegaConf.create(tree)
    walk = _Walk(tree, report)
    return {
        str(name): walk.value(config, name, (str(name),), quiet=False)
        for name in list(config.keys())
        if only is None or name == only
    }


class _Walk:
    def __init__(self, tree: dict[str, Any], report: Report) -> None:
        self.tree = tree
        self.report = report

    def value(self, node: "DictConfig | ListConfig", index: Any, key: Key, *, quiet: bool) -> Any:
        """The plain value at `node[index]`; `quiet` below a reference, whose target has its own report."""
        from omegaconf import DictConfig, ListConfig, OmegaConf
        from omegaconf.errors import InterpolationToMissingValueError, OmegaConfBaseException

        refers = OmegaConf.is_interpolation(node, index)
        if not refers and OmegaConf.is_missing(node, index):
            if not quiet and self.report.complete:
                advice = f"Set it in a file, or with ++{dotted(key)}=<value>."
                self.report.add(key, "a value is required here (???).", advice)
            return None
        try:
            value = node[index]
        except InterpolationToMissingValueError:
            return None  # The ??? it refers to is reported itself.
        except (OmegaConfBaseException, RecursionError) as error:
            if not quiet and self.report.complete:
                self._unresolved(OmegaConf.to_container(node)[index], key, error)  # type: ignore[index]
            return None
        if isinstance(value, DictConfig | ListConfig) and len(key) > MAX_DEPTH:
            self.report.add(key[:2], "refers back to itself through other keys.", "Break the circle.")
            return None
        quiet = quiet or refers
        if isinstance(value, DictConfig):
            return {
                name: self.value(value, name, (*key, str(name)), quiet=quiet) for name in list(value.keys())
            }
        if isinstance(value, ListConfig):
            return [self.value(value, at, (*key, f"[{at}]"), quiet=quiet) for at in range(len(value))]
        return value

    def _unresolved(self, text: str, key: Key, error: Exception) -> None:
        for match in _ENVIRONMENT.finditer(text):
            if f"'{match[1]}'" in str(error):
                advice = f"Export {match[1]}, or give a default: ${{oc.env:{match[1]},default}}."
                self.report.add(key, f"the environment variable {match[1]} is not set.", advice)
                return
        names = [match for match in _REFERENCE.finditer(text) if not _has(self.tree, match["path"])]
        for match in names:
            path, root = match["path"], match["root"]
            advice = f"Put `{path}: <value>` in env.yaml"
            if path == root:
                advice += f", or export {root.upper()}"
                others = [name for name in self.tree if name != root]
                if close := difflib.get_close_matches(root, others, n=1, cutoff=0.8):
                    advice += f" ({close[0]!r} is set: is that a misspelling?)"
            self.report.add(key, f"${{{path}}} is not set.", f"{advice}.")
        if not names:
            reason = (
                "refers back to itself"
                if "ecursi" in str(error) or "parent" in str(error)
                else "cannot be resolved"
            )
            advice = "Check the key or the resolver that it names."
            self.report.add(key, f"the reference {text} {reason}.", advice)


def _has(tree: Any, path: str) -> bool:
    for name in path.replace("[", ".").replace("]", "").split("."):
        if isinstance(tree, dict) and name in tree:
            tree = tree[name]
        elif isinstance(tree, list) and name.isdigit() and int(name) < len(tree):
            tree = tree[int(name)]
        else:
            # Below another reference nobody can tell from here.
            return isinstance(tree, str) and "${" in tree
    return True


def _strings(node: Any) -> Iterator[str]:
    if isinstance(node, str):
        if "${" in node:
            yield node
    elif isinstance(node, dict):
        for value in node.values():
            yield from _strings(value)
    elif isinstance(node, list):
        for value in node:
            yield from _strings(value)
