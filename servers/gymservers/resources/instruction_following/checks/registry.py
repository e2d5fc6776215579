"""The registry of instructions: an id, the function that checks it, and the types of its arguments.

A check is a function of the text and of the instruction's own arguments, by name. Their annotations are the
schema: a row that does not fit it is a bad task, which is refused before anything is scored.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import pydantic
from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints

__all__ = [
    "CHECKS",
    "Check",
    "Count",
    "FirstOf",
    "Instruction",
    "Percentage",
    "Phrase",
    "Place",
    "Relation",
    "Text",
    "Texts",
    "compare",
    "instruction",
    "parse_arguments",
]


def _whole(value: Any) -> Any:
    """A JSON number without a fraction, which data frames may have written as 3.0; never a bool or a text."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError("should be a whole number")
    return value


def _first(value: Any) -> Any:
    """The first of a list: some rows wrap their one word."""
    return value[0] if isinstance(value, list) and value else value


def _unique(values: list[str]) -> list[str]:
    return list(dict.fromkeys(values))


Count = Annotated[int, BeforeValidator(_whole), Field(ge=0)]
"""How many; 0 or more."""
Place = Annotated[int, BeforeValidator(_whole), Field(ge=1)]
"""A number that counts from 1."""
Percentage = Annotated[float, Field(ge=0, allow_inf_nan=False, strict=True)]
"""A share of 100."""
Text = Annotated[str, StringConstraints(min_length=1)]
"""A text that is not empty, taken as it is."""
Phrase = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
"""A text that is not empty, without blanks around it."""
FirstOf = Annotated[Phrase, BeforeValidator(_first)]
"""A phrase, or a list whose first entry is it."""
Texts = Annotated[list[Text], Field(min_length=1), AfterValidator(_unique)]
"""One or more texts."""
Relation = Literal["less than", "at least"]
"""How a count compares with the one asked for."""
Instruction = tuple[str, dict[str, Any]]
"""The id of an instruction and its parsed arguments."""


@dataclass(frozen=True)
class Check:
    """How one instruction is checked.

    Attributes:
        function: takes the text and the arguments; True if the text follows the instruction.
        model: validates the arguments.
        problem: says what is wrong with arguments that are fine one by one; None if nothing is.
    """

    function: Callable[..., bool]
    model: type[pydantic.BaseModel]
    problem: Callable[..., str | None] | None


CHECKS: dict[str, Check] = {}
"""Every instruction by its id; the modules of this package fill it when they are imported."""

_Function = typing.TypeVar("_Function", bound=Callable[..., bool])


def instruction(
    *ids: str, extra: Literal["forbid", "ignore"] = "forbid", problem: Callable[..., str | None] | None = None
) -> Callable[[_Function], _Function]:
    """Registers a function as the check of some ids.

    Args:
        ids: instructions that it checks.
        extra: what to do with arguments that it does not name.
        problem: see Check.
    """

    def register(function: _Function) -> _Function:
        hints = typing.get_type_hints(function, include_extras=True)
        names = list(inspect.signature(function).parameters.values())[1:]
        fields: dict[str, Any] = {
            name.name: (hints[name.name], ... if name.default is name.empty else name.default)
            for name in names
        }
        config = pydantic.ConfigDict(extra=extra)
        model = pydantic.create_model(function.__name__, __config__=config, **fields)
        for name in ids:
            if name in CHECKS:
                raise ValueError(f"two checks for {name}")
            CHECKS[name] = Check(function, model, problem)
        return function

    return register


def parse_arguments(name: str, arguments: Mapping[str, Any] | None) -> dict[str, Any]:
    """The arguments of an instruction, validated; null ones count as absent.

    Raises:
        ValueError: there is no such instruction, or the arguments do not fit it.
    """
    check = CHECKS.get(name)
    if check is None:
        raise ValueError(f"there is no instruction {name!r}; the README of this server lists all of them")
    given = {key: value for key, value in (arguments or {}).items() if value is not None}
    try:
        model = check.model.model_validate(given)
    except pydantic.ValidationError as failure:
        details = "; ".join(
            f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}"
            for problem in failure.errors(include_url=False, include_context=False, include_input=False)
        )
        raise ValueError(f"kwargs of {name} do not fit: {details}") from None
    parsed = {key: getattr(model, key) for key in type(model).model_fields}
    wrong = check.problem(**parsed) if check.problem else None
    if wrong:
        raise ValueError(f"kwargs of {name} do not fit: {wrong}")
    return parsed


def compare(found: int, relation: Relation, wanted: int) -> bool:
    """Whether a count is as asked for."""
    return found < wanted if relation == "less than" else found >= wanted
