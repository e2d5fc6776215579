"""Parses a model's text as a whole: JSON, YAML, XML, TOML or CSV. Nothing around the document is forgiven.

The texts are a model's and may be meant to harm: entities, aliases that multiply, endless nesting.
"""

from __future__ import annotations

import csv
import io
import re
import tomllib
from collections.abc import Callable
from typing import Any
from xml.parsers import expat

import yaml

from gymservers.resources.structured_outputs.jsontext import parse_json

__all__ = ["FORMATS", "Malformed", "parse"]

MOST_ALIASED_NODES = 100_000
"""A YAML document with aliases may stand for so many nodes; ten short lines can stand for millions."""


class Malformed(Exception):
    """The text is no document of the format."""


def parse(kind: str, text: str) -> Any:
    """The document in a text: dicts, lists, scalars, and what else YAML and TOML know, such as dates.

    Args:
        kind: a key of FORMATS.

    Raises:
        Malformed: with the reason.
    """
    try:
        return FORMATS[kind](text)
    except Malformed:
        raise
    except RecursionError:
        raise Malformed("it is nested too deeply") from None
    except MemoryError:
        raise
    except Exception as failure:  # each parser has its own, and some let others through
        raise Malformed(f"{type(failure).__name__}: {failure}") from None


# YAML.

_FastLoader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
# The C parser is ten times faster. But it reads a few things otherwise than the Python one, whose reading
# counts, and follows nesting without a limit. So it only gets texts without what the two differ in or what
# may nest deeply: tabs and control characters; tags, anchors, aliases, directives, complex keys; odd headers
# of block scalars; `?`, or `:` without a space behind it, in a text with brackets; long runs of dashes.
_ODD_YAML = (
    re.compile(r"[\t\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff\ud800-\udfff]"),
    re.compile(r"[&*!%@`?](?<![^\s\[{,:-].)"),
    re.compile(r"[|>](?<!\S.)(?![-+]?\n)"),
    re.compile(r"^[ -]{100}", re.MULTILINE),
    re.compile(r"(?:-\s+){50}"),
)
_YAML_BRACKET = re.compile(r"[\[{](?<!\S.)(?![\]}](?:\n|\Z))")
_ODD_WITH_BRACKETS = re.compile(r"\?|:(?![ \n])")
_MOST_BRACKETS = 500


def _parse_yaml(text: str) -> Any:
    loader = (_FastLoader if _is_usual_yaml(text) else yaml.SafeLoader)(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return None
        if "*" in text:
            _check_aliases(node)
        return loader.construct_document(node)
    finally:
        loader.dispose()


def _is_usual_yaml(text: str) -> bool:
    if any(odd.search(text) for odd in _ODD_YAML):
        return False
    if _YAML_BRACKET.search(text) is None:
        return True
    return text.count("[") + text.count("{") <= _MOST_BRACKETS and not _ODD_WITH_BRACKETS.search(text)


def _check_aliases(root: yaml.Node) -> None:
    """Raises Malformed if aliases make the document endless, or far larger than its text."""
    sizes: dict[int, int] = {}
    entered: set[int] = set()
    stack = [root]
    while stack:
        node = stack[-1]
        inner = _children(node)
        if id(node) not in entered:
            entered.add(id(node))
            for child in inner:
                if id(child) in entered and id(child) not in sizes:
                    raise Malformed("an alias stands inside its own anchor")
            stack += [child for child in inner if id(child) not in sizes]
            continue
        stack.pop()
        sizes[id(node)] = 1 + sum(sizes[id(child)] for child in inner)
        if sizes[id(node)] > MOST_ALIASED_NODES:
            raise Malformed(f"its aliases stand for more than {MOST_ALIASED_NODES:,} nodes")


def _children(node: yaml.Node) -> list[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        return [part for pair in node.value for part in pair]
    return node.value if isinstance(node, yaml.SequenceNode) else []


# XML.


class _Tree:
    """An XML document as a dict: attributes as `@name`, equal elements as a list, other text as `#text`."""

    def __init__(self) -> None:
        self.element: dict[str, Any] | None = None
        self._text: list[str] = []
        self._open: list[tuple[dict[str, Any] | None, list[str]]] = []

    def start(self, name: str, attributes: list[str]) -> None:
        self._open.append((self.element, self._text))
        pairs = zip(attributes[::2], attributes[1::2], strict=True)
        self.element = {f"@{key}": value for key, value in pairs} or None
        self._text = []

    def characters(self, text: str) -> None:
        self._text.append(text)

    def end(self, name: str) -> None:
        value: Any = "".join(self._text).strip() or None
        if self.element is not None:
            if value is not None:
                _add(self.element, "#text", value)
            value = self.element
        self.element, self._text = self._open.pop()
        if self.element is None:
            self.element = {}
        _add(self.element, name, value)


def _add(element: dict[str, Any], name: str, value: Any) -> None:
    if name not in element:
        element[name] = value
    elif isinstance(element[name], list):
        element[name].append(value)
    else:
        element[name] = [element[name], value]


def _refuse_entity(*declaration: object) -> None:
    raise Malformed("it declares entities")


def _parse_xml(text: str) -> Any:
    tree = _Tree()
    parser = expat.ParserCreate("utf-8")
    parser.ordered_attributes = True
    parser.buffer_text = True
    parser.StartElementHandler = tree.start
    parser.EndElementHandler = tree.end
    parser.CharacterDataHandler = tree.characters
    parser.EntityDeclHandler = _refuse_entity
    parser.Parse(text.encode(), True)
    return tree.element


# CSV.


class Table(list[dict[Any, Any]]):
    """The rows of a CSV document: a cell that a row lacks is None, cells beyond the header stand under None.

    Attributes:
        header: the names of the columns.
    """

    header: list[str]


def _parse_csv(text: str) -> Table:
    reader = csv.DictReader(io.StringIO(text))
    table = Table(reader)
    table.header = list(reader.fieldnames or ())
    return table


FORMATS: dict[str, Callable[[str], Any]] = {
    "json": parse_json,
    "yaml": _parse_yaml,
    "xml": _parse_xml,
    "toml": tomllib.loads,
    "csv": _parse_csv,
}
"""The parser of each format."""
