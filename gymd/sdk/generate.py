"""Makes tasks for an environment that can, by seed.

An environment can if a file generate.py stands beside its server.py, with

    class Options(GenerateOptions):        # its own options, beside size and seed, each with a docstring
        difficulty: int = 1

    def generate(options: Options) -> Iterator[dict[str, Any]]:
        ...                                # whole rows: responses_create_params and the verifier's fields

and, if it likes, `COUNT_BY = "metadata.kind"`, a place in the rows by whose values they are counted, and
`choices() -> dict[str, list[str]]`, the known values of options. The same options give the same rows. What
only `generate` can see to be wrong is raised as GenerateError.

`gymctl data generate` runs `main` in a process of its own, since it imports the environment's code: a request
on stdin, one row a line on stdout; the last line begins with a record separator (0x1e) and holds a report.
"""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import json
import sys
import traceback
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, BinaryIO

import pydantic

__all__ = ["REPORT_MARK", "GenerateError", "GenerateOptions", "main", "unknown"]

REPORT_MARK = b"\x1e"


class GenerateError(Exception):
    """The options cannot be followed.

    Args:
        message: what is wrong.
        hint: what to do next.
    """

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class GenerateOptions(pydantic.BaseModel):
    """What every generator takes; an unknown key is an error."""

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    size: int = pydantic.Field(default=500, ge=1)
    """Rows to make."""
    seed: int = 42
    """Any integer. The same seed gives the same rows."""


def unknown(what: str, name: str, known: Iterable[str]) -> GenerateError:
    """The error for a name that nobody knows, with the nearest one."""
    names = list(known)
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    return GenerateError(f"there is no {what} {name!r}", f"Did you mean {close[0]}?" if close else "")


def serve_request(request: Mapping[str, Any], out: BinaryIO) -> None:
    """Answers one request.

    Args:
        request: `module` or `file` of the generate.py; `options`; `agent`, which the rows then name, or "";
            `describe`: report the options instead of making rows.
        out: takes the rows and the report.
    """
    try:
        module = _load(request)
        report = _describe(module) if request.get("describe") else _generate(module, request, out)
    except GenerateError as failure:
        report = {"error": str(failure), "hint": failure.hint}
    except ModuleNotFoundError as failure:
        report = {"missing": failure.name or str(failure)}
    except Exception as failure:
        text = f"{type(failure).__name__}: {failure}"
        report = {"error": text, "hint": "", "traceback": traceback.format_exc()}
    out.write(REPORT_MARK + json.dumps(report).encode() + b"\n")
    out.flush()


def _load(request: Mapping[str, Any]) -> ModuleType:
    if not request.get("file"):
        return importlib.import_module(request["module"])
    path = Path(request["file"])
    spec = importlib.util.spec_from_file_location("gymd_generate", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def _generate(module: ModuleType, request: Mapping[str, Any], out: BinaryIO) -> dict[str, Any]:
    try:
        options = module.Options.model_validate(request.get("options") or {})
    except pydantic.ValidationError as failure:
        raise _wrong_options(module.Options, failure) from None
    counts: Counter[str] = Counter()
    count_by, agent = getattr(module, "COUNT_BY", ""), request.get("agent")
    rows = 0
    for row in module.generate(options):
        if agent:
            row["agent_ref"] = {"type": "responses_api_agents", "name": agent}
        # Not orjson: integers may be longer than 64 bits, and tuples and subclasses of str are common.
        out.write(json.dumps(row, ensure_ascii=False, allow_nan=False).encode() + b"\n")
        rows += 1
        if count_by:
            counts[str(_value_at(row, count_by))] += 1
    return {"rows": rows, "seed": options.seed, "count_by": count_by, "counts": dict(sorted(counts.items()))}


def _wrong_options(options: type[GenerateOptions], failure: pydantic.ValidationError) -> GenerateError:
    problem = failure.errors(include_url=False, include_context=False, include_input=False)[0]
    key = ".".join(map(str, problem["loc"]))
    if problem["type"] == "extra_forbidden":
        return unknown("option", key, options.model_fields)
    return GenerateError(f"{key}: {problem['msg']}")


def _value_at(row: Any, place: str) -> Any:
    for part in place.split("."):
        row = row[part]
    return row


def _describe(module: ModuleType) -> dict[str, Any]:
    fields: Mapping[str, pydantic.fields.FieldInfo] = module.Options.model_fields
    options = [
        {
            "name": name,
            "default": field.get_default(call_default_factory=True),
            "help": " ".join((field.description or "").split()),
        }
        for name, field in fields.items()
    ]
    return {"options": options, "choices": module.choices() if hasattr(module, "choices") else {}}


def main() -> None:
    """Reads the request and answers it."""
    request = json.load(sys.stdin)
    # What the environment's code prints must not mix with the rows.
    out, sys.stdout = sys.stdout.buffer, sys.stderr
    serve_request(request, out)
