"""Turns the merged tree into server descriptions, and says what keeps it from being one."""

import difflib
import logging
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from gymd.config.builtin import builtin_folder, builtin_names
from gymd.config.datasets import DATASETS_KEY, load_datasets
from gymd.config.keys import KNOWN_KEYS
from gymd.config.model import KIND_OF_TYPE, TYPE_OF_KIND, Kind, ServerSpec, find_name
from gymd.config.names import is_custom_entrypoint
from gymd.config.problems import COMMAND_LINE, Key, Report, dotted, suggest

__all__ = ["check_top_level", "connect", "describe_servers"]

logger = logging.getLogger(__name__)

DOMAINS = (
    "math",
    "coding",
    "agent",
    "knowledge",
    "instruction_following",
    "long_context",
    "safety",
    "games",
    "translation",
    "e2e",
    "rlhf",
    "other",
)
"""NeMo Gym's domains of resources servers."""

# A word this close to a domain, a key or a server type is taken for a misspelling of it.
_MISSPELLING = 0.8
_SHAPE = "Write <instance>: {<server type>: {<implementation>: {...}}} with one type and one implementation."
_TYPES = f"The server types are {', '.join(KIND_OF_TYPE)}."
# Keys of a block that describe the server to the mesh; the rest is the server's own.
_OWN_KEYS = frozenset({"entrypoint", "placement", "replicas", "num_workers", "host", "port", DATASETS_KEY})
# What NeMo Gym hands from the top level to each agent that does not set it itself.
_AGENT_DEFAULTS = ("skip_verification", "skip_verification_reward")


def check_top_level(raw: dict[str, Any], known: set[str], env_source: str | None, report: Report) -> None:
    """Reports top-level keys that nobody reads; `known` holds further names that something refers to.

    env.yaml may hold values for other runs, so only what looks like a server is judged there.
    """
    for name, value in raw.items():
        if (
            name in KNOWN_KEYS
            or name in known
            or (isinstance(value, dict) and value.keys() & KIND_OF_TYPE.keys())
        ):
            continue
        if isinstance(value, dict) and (misspelt := _almost_type(value)):
            advice = f"{_SHAPE} {_TYPES}"
            _shape_problem(
                raw, report, (name,), f"this is almost a server, but {misspelt!r} is no type.", advice
            )
        elif report.complete and report.origins.of((name,)) != env_source and not report.touches((name,)):
            close = difflib.get_close_matches(name, KNOWN_KEYS, n=1, cutoff=_MISSPELLING)
            advice = (
                f"Did you mean {close[0]!r}?"
                if close
                else f"Remove it, or make it a server. {_SHAPE} {_TYPES}"
            )
            report.add((name,), "is neither a server nor a known setting, and nothing refers to it.", advice)


def _almost_type(value: dict[Any, Any]) -> str | None:
    """The key that was probably meant as the server type, if a mapping has the shape of an instance."""
    for key, blocks in value.items():
        if difflib.get_close_matches(str(key), KIND_OF_TYPE, n=1, cutoff=_MISSPELLING):
            return str(key)
        if isinstance(blocks, dict) and any(
            isinstance(b, dict) and "entrypoint" in b for b in blocks.values()
        ):
            return str(key)
    return None


def _shape_problem(raw: dict[str, Any], report: Report, key: Key, message: str, advice: str) -> None:
    """Reports a block that is almost a server; `error_on_almost_servers: false` turns that into a warning."""
    if raw.get("error_on_almost_servers") is False:
        logger.warning("ignoring %s: %s", dotted(key), message)
    elif not report.touches(key):
        # A value that is missing here has been reported as such.
        report.add(key, message, advice)


def connect(raw: dict[str, Any], report: Report) -> None:
    """Checks every {type, name} reference of every server, and rewrites old names in place to today's."""
    instances = {
        name: {type_ for type_ in KIND_OF_TYPE if type_ in value}
        for name, value in raw.items()
        if isinstance(value, dict) and value.keys() & KIND_OF_TYPE.keys()
    }
    for name in instances:
        _connect_below(raw[name], (name,), instances, report)


def _connect_below(node: Any, key: Key, instances: dict[str, set[str]], report: Report) -> None:
    if isinstance(node, list):
        for position, item in enumerate(node):
            _connect_below(item, (*key, f"[{position}]"), instances, report)
    if not isinstance(node, dict):
        return
    type_, name = node.get("type"), node.get("name")
    if isinstance(type_, str) and type_ in KIND_OF_TYPE and isinstance(name, str):
        same = {other: types for other, types in instances.items() if type_ in types}
        found = find_name(name, same)
        if found is not None:
            node["name"] = found
        elif report.complete:
            kind = KIND_OF_TYPE[type_]
            there = (
                f"; {name!r} is of another type ({', '.join(instances[name])})" if name in instances else ""
            )
            advice = suggest(name, same, label=f"Defined {type_}")
            report.add((*key, "name"), f"no {kind} server is named {name!r}{there}.", advice)
    for child_name, child in node.items():
        _connect_below(child, (*key, str(child_name)), instances, report)


def describe_servers(raw: dict[str, Any], report: Report) -> list[ServerSpec]:
    """The server of each instance; an instance with a problem is left out."""
    specs = []
    for name, value in raw.items():
        if not isinstance(value, dict) or not value.keys() & KIND_OF_TYPE.keys():
            continue
        if spec := _describe(name, value, raw, report):
            specs.append(spec)
    return specs


def _describe(name: str, instance: dict[str, Any], raw: dict[str, Any], report: Report) -> ServerSpec | None:
    if extra := [str(key) for key in instance if key not in KIND_OF_TYPE]:
        advice = f"Move it into the implementation's block, or delete it. {_SHAPE} {_TYPES}"
        _shape_problem(raw, report, (name, extra[0]), "stands beside the server type.", advice)
        return None
    type_ = _only(instance, (name,), "server type", raw, report)
    if type_ is None:
        return None
    implementation = _only(instance[type_], (name, type_), "implementation", raw, report)
    if implementation is None:
        return None
    key = (name, type_, implementation)
    block = instance[type_][implementation]
    # `mcqa:` with nothing below it: every default.
    block = {} if block is None and not report.touches(key) else block
    if not isinstance(block, dict):
        _shape_problem(raw, report, key, "must be a mapping with the server's settings.", _SHAPE)
        return None
    return _build(key, block, raw, report)


def _only(node: Any, key: Key, what: str, raw: dict[str, Any], report: Report) -> str | None:
    """The one key of a mapping that must have exactly one."""
    names = [str(name) for name in node] if isinstance(node, dict) else []
    if len(names) == 1:
        return names[0]
    if not names:
        _shape_problem(raw, report, key, f"names no {what}.", f"{_SHAPE} {_TYPES}")
        return None
    listed = ", ".join(f"{name} ({report.origins.of((*key, name)) or 'unknown source'})" for name in names)
    advice = f"Give one of them another instance name, or drop it with ~{dotted((*key, names[0]))}."
    _shape_problem(raw, report, key, f"has more than one {what}: {listed}.", advice)
    return None


def _build(key: Key, block: dict[str, Any], raw: dict[str, Any], report: Report) -> ServerSpec | None:
    name, type_, implementation = key
    kind = KIND_OF_TYPE[type_]
    replicas_key = "replicas" if block.get("replicas") is not None else "num_workers"
    fields = {
        "placement": block.get("placement"),
        "replicas": block.get(replicas_key),
        "host": block.get("host") or raw.get("default_host"),
        "port": block.get("port"),
        "datasets": load_datasets(block.get(DATASETS_KEY), (*key, DATASETS_KEY), report),
        "entrypoint": _entrypoint(key, block, report),
    }
    config = {str(option): value for option, value in block.items() if option not in _OWN_KEYS}
    if kind == "agent":
        config = {**{k: raw[k] for k in _AGENT_DEFAULTS if raw.get(k) is not None}, **config}
    if kind == "resources":
        _check_domain(key, block, raw, report)
    if fields["placement"] != "remote" and not fields["entrypoint"]:
        _check_builtin(key, kind, block.get("entrypoint"), report)
    try:
        return ServerSpec.model_validate(
            {
                "name": name,
                "kind": kind,
                "implementation": implementation,
                "config": config,
                "source_file": report.origins.of(key) or "",
                **{field: value for field, value in fields.items() if value is not None},
            }
        )
    except ValidationError as error:
        for detail in error.errors(include_url=False, include_input=False):
            path = [
                replicas_key if part == "replicas" else f"[{part}]" if isinstance(part, int) else str(part)
                for part in detail["loc"]
            ]
            report.add(
                (*key, *path), f"{detail['msg'][:1].lower()}{detail['msg'][1:]}.", "Correct the value."
            )
        return None


def _check_builtin(key: Key, kind: Kind, entrypoint: Any, report: Report) -> None:
    if builtin_folder(kind, key[-1]) is None:
        advice = suggest(key[-1], builtin_names(kind), label=f"Built-in {TYPE_OF_KIND[kind]}")
        advice += " For a server of your own, set entrypoint to package.module:Class or path/file.py:Class"
        advice += "." if entrypoint is None else f"; {entrypoint!r} names no class."
        report.add(key, f"{key[-1]!r} is no built-in {kind} server.", advice)


def _check_domain(key: Key, block: dict[str, Any], raw: dict[str, Any], report: Report) -> None:
    # Later releases add domains: only what must be a mistake is one.
    domain = block.get("domain")
    if domain is None or domain in DOMAINS:
        return
    close = difflib.get_close_matches(str(domain), DOMAINS, n=1, cutoff=_MISSPELLING)
    if close or not isinstance(domain, str):
        advice = suggest(str(domain), DOMAINS, label="Domains")
        _shape_problem(raw, report, (*key, "domain"), f"{domain!r} is no domain.", advice)


def _entrypoint(key: Key, block: dict[str, Any], report: Report) -> str | None:
    """The user's own class, a file made absolute; None for NeMo Gym's `app.py` of a built-in server."""
    value = block.get("entrypoint")
    if not is_custom_entrypoint(value):
        return None
    target, _, name = str(value).rpartition(":")
    key = (*key, "entrypoint")
    if not name.isidentifier() or not target:
        report.add(key, f"{value!r} names no class.", "Write package.module:Class or path/file.py:Class.")
    elif target.endswith(".py"):
        source = report.origins.of(key)
        folders = [report.cwd / source] if source and source != COMMAND_LINE else []
        places = [report.cwd / target, *(folder.parent / target for folder in folders)]
        for place in places:
            if place.is_file():
                return f"{Path(place).resolve()}:{name}"
        looked = ", ".join(str(place) for place in dict.fromkeys(places))
        report.add(key, f"there is no file {target}.", f"Looked for {looked}.")
    return str(value)
