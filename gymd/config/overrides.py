"""Hydra-style overrides: `key=value`, `+key=value`, `++key=value` and `~key`, values written as YAML."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from gymd.config.builtin import modern_names
from gymd.config.problems import COMMAND_LINE, MISSING, Key, Origins, Report, dotted, suggest

if TYPE_CHECKING:
    from omegaconf import DictConfig

__all__ = ["Override", "apply_override", "parse_overrides"]

_FORM = re.compile(r"(?P<sign>~|\+\+|\+)?(?P<key>[^=\s]+?)(?:=(?P<value>.*))?", re.DOTALL)
_SEGMENT = re.compile(r"\[\d+\]|[^.\[\]]+")
_INTERPOLATION = re.compile(r"\$\{[^{}]*\}")
# The start of a list, mapping or quotation, unless it is an IPv6 address in brackets.
_OPEN = re.compile(r"(?!\[[0-9a-fA-F:.%]+\]:\d+$)[\[{'\"]")


@dataclass(frozen=True)
class Override:
    """One override, parsed."""

    action: Literal["set", "add", "delete"]
    """`set` came without a plus sign: its first key must exist already."""
    key: Key
    value: Any = None


def parse_overrides(texts: list[str], report: Report) -> list[Override]:
    """Parses overrides, reporting those that cannot be; the value is never repeated, it may be a secret."""
    overrides = []
    for text in texts:
        match = _FORM.fullmatch(text.strip())
        key = tuple(_SEGMENT.findall(match["key"])) if match else ()
        deletes = match is not None and match["sign"] == "~"
        if match is None or not key or (match["value"] is None and not deletes):
            head = text.partition("=")[0]
            report.add(
                (), f"override {head!r} is not understood.", "Write key=value or ~key.", file=COMMAND_LINE
            )
            report.complete = False
        elif deletes:
            overrides.append(Override("delete", key))
        else:
            try:
                value = _parse_value(match["value"])
            except ValueError:
                advice = "Quote the value for YAML, and the whole override for the shell."
                report.add(key, "the value is not valid YAML.", advice, file=COMMAND_LINE)
                report.complete = False
            else:
                overrides.append(Override("add" if match["sign"] else "set", key, value))
    return overrides


def _parse_value(text: str) -> Any:
    """Reads a value as YAML, or as plain text where it can be nothing else.

    Raises:
        ValueError: if it starts as a list, a mapping or a quotation but is none.
    """
    import yaml
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    # `[${a}, b]` and `{k: ${a}}` are Hydra's grammar, but in YAML the inner braces need quotes.
    quoted = _INTERPOLATION.sub(lambda match: f"'{match[0]}'", text)
    for candidate in (text, quoted):
        try:
            # OmegaConf's loader, so that 1e-6 is a number and 2025-01-01 a string as in the files.
            return OmegaConf.to_container(OmegaConf.create(f"value: {candidate}"))["value"]  # type: ignore[index,call-overload]
        except (yaml.YAMLError, OmegaConfBaseException):
            continue
    if _OPEN.match(text.strip()):
        raise ValueError("a list, mapping or quotation that is not closed")
    # Not YAML, yet plain enough for a person: `[::1]:0`, `@name`, `a: b: c`.
    return text


def apply_override(
    config: "DictConfig", override: Override, report: Report, is_known: Callable[[str], bool]
) -> None:
    """Applies an override to the merged configuration in place.

    `is_known` tells which first keys a plain `key=value` may set although no file has them.
    """
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    key = _modern_key(override.key, config)
    if override.action == "delete":
        _delete(config, key, report)
        return
    if override.action == "set" and len(key) > 1 and key[0] not in config and not is_known(key[0]):
        advice = f"{suggest(key[0], map(str, config))} To add something new, write +{dotted(key)}=..."
        report.add(key, f"there is no {key[0]!r} to override.", advice, file=COMMAND_LINE)
        return
    try:
        OmegaConf.update(config, dotted(key), override.value, merge=True, force_add=True)
    except (OmegaConfBaseException, LookupError, TypeError, ValueError):
        advice = "Check the key: list positions must exist, and only mappings and lists have keys below them."
        report.add(key, "the override does not fit the configuration.", advice, file=COMMAND_LINE)
        return
    _record(report.origins, key, override.value)


def _record(origins: Origins, key: Key, value: Any) -> None:
    # A mapping merges into what is there: only its leaves are the command line's. `???` takes nothing over.
    if isinstance(value, dict):
        for name, child in value.items():
            _record(origins, (*key, str(name)), child)
    elif value != MISSING:
        origins.record(value, COMMAND_LINE, key)


def _modern_key(key: Key, config: "DictConfig") -> Key:
    """The key with an instance's old name replaced, if only the new one is defined."""
    if key[0] in config:
        return key
    return next(((name, *key[1:]) for name in modern_names(key[0]) if name in config), key)


def _delete(config: "DictConfig", key: Key, report: Report) -> None:
    from omegaconf import DictConfig, ListConfig, OmegaConf

    parent = OmegaConf.select(config, dotted(key[:-1]), throw_on_missing=False) if key[1:] else config
    last: Any = key[-1]
    if isinstance(parent, ListConfig) and (last := last.strip("[]")).isdigit() and int(last) < len(parent):
        parent.pop(int(last))
    elif isinstance(parent, DictConfig) and last in parent:
        del parent[last]
    else:
        names = [str(name) for name in parent] if isinstance(parent, DictConfig) else []
        report.add(key, "there is nothing to delete here.", suggest(str(last), names), file=COMMAND_LINE)
