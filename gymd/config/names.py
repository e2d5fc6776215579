"""Brings every layer to today's names before the merge, so that old and new spellings meet in one place."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from gymd.config.builtin import modern_type_name
from gymd.config.overrides import Override
from gymd.config.problems import Key

__all__ = ["custom_implementations", "is_custom_entrypoint", "modernise", "modernise_override"]

_MODELS = "responses_api_models"
_RESOURCES = "resources_servers"
_TYPES = (_MODELS, _RESOURCES, "responses_api_agents")
_RENAMED_MODEL_KEYS = {"openai_model_name": "openai_model"}

Implementation = tuple[str, str]
"""Server type and implementation name."""


def is_custom_entrypoint(value: Any) -> bool:
    """Whether an entrypoint names a user's own class (`pkg.module:Class`, `path.py:Class`)."""
    return isinstance(value, str) and ":" in value


def custom_implementations(trees: Iterable[dict[str, Any]]) -> set[Implementation]:
    """The implementations that are a user's own: those keep their names, whatever they are."""
    return {
        (type_, name)
        for tree in trees
        for instance in tree.values()
        if isinstance(instance, dict)
        for type_ in _TYPES
        if isinstance(blocks := instance.get(type_), dict)
        for name, block in blocks.items()
        if isinstance(block, dict) and is_custom_entrypoint(block.get("entrypoint"))
    }


def modernise(tree: dict[str, Any], custom: set[Implementation]) -> dict[str, Any]:
    """A copy of a tree with today's names of implementations and of their keys."""
    return {name: _instance(value, custom) for name, value in tree.items()}


def modernise_override(override: Override, custom: set[Implementation]) -> Override:
    """The same override with today's names in its key and value."""
    tree: Any = override.value
    for name in reversed(override.key):
        tree = {name: tree}
    tree = modernise(tree, custom)
    key: Key = ()
    for _ in override.key:
        name, tree = next(iter(tree.items()))
        key = (*key, name)
    return replace(override, key=key, value=tree)


def _instance(instance: Any, custom: set[Implementation]) -> Any:
    if not isinstance(instance, dict):
        return instance
    result = dict(instance)
    for type_ in _TYPES:
        if isinstance(blocks := instance.get(type_), dict):
            result[type_] = {
                _name(type_, name, custom): _block(type_, block) for name, block in blocks.items()
            }
    return result


def _name(type_: str, name: Any, custom: set[Implementation]) -> Any:
    if type_ != _RESOURCES or (type_, name) in custom or not isinstance(name, str):
        return name
    return modern_type_name(name)


def _block(type_: str, block: Any) -> Any:
    if type_ != _MODELS or not isinstance(block, dict):
        return block
    # Where both are given, today's name wins.
    kept = {key: value for key, value in block.items() if key not in _RENAMED_MODEL_KEYS}
    for old, new in _RENAMED_MODEL_KEYS.items():
        if old in block:
            kept.setdefault(new, block[old])
    return kept
