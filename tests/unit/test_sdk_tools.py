"""Tools: the schema that a signature becomes, and what happens with a model's arguments."""

import inspect
import json
from typing import Annotated, Any, Literal

import pydantic
import pytest

from gymd.sdk.tools import BoundTool, ToolError, collect_tools, output_text, tool


class Place(pydantic.BaseModel):
    city: str
    zip: int | None = None


def bound(function: Any) -> BoundTool:
    return BoundTool(function.__name__, function)


def parameters(function: Any) -> dict[str, Any]:
    return json.loads(bound(function).definition.parameters_json)


async def plain(city: str, days: int, ratio: float, loud: bool) -> str: ...
async def nothing() -> str: ...
async def defaults(city: str, days: int = 3, unit: str | None = None) -> str: ...
async def choice(unit: Literal["C", "F"]) -> str: ...
async def lists(values: list[int], table: dict[str, float]) -> str: ...
async def annotated(days: Annotated[int, pydantic.Field(ge=1, le=7, description="How many.")]) -> str: ...
async def nested(place: Place) -> str: ...
async def titled(title: str, place: Place = Place(city="x")) -> str: ...  # noqa: B008
async def reserved(json: str, copy: int, _hidden: bool, model_name: str = "m") -> str: ...
async def injected(session: Any, city: str) -> str: ...


@pytest.mark.parametrize(
    ("function", "properties", "required"),
    [
        (nothing, {}, []),
        (
            plain,
            {
                "city": {"type": "string"},
                "days": {"type": "integer"},
                "ratio": {"type": "number"},
                "loud": {"type": "boolean"},
            },
            ["city", "days", "ratio", "loud"],
        ),
        (
            defaults,
            {
                "city": {"type": "string"},
                "days": {"type": "integer", "default": 3},
                "unit": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
            },
            ["city"],
        ),
        (choice, {"unit": {"type": "string", "enum": ["C", "F"]}}, ["unit"]),
        (
            lists,
            {
                "values": {"type": "array", "items": {"type": "integer"}},
                "table": {"type": "object", "additionalProperties": {"type": "number"}},
            },
            ["values", "table"],
        ),
        (
            annotated,
            {"days": {"type": "integer", "minimum": 1, "maximum": 7, "description": "How many."}},
            ["days"],
        ),
        (nested, {"place": {"$ref": "#/$defs/Place"}}, ["place"]),
        (injected, {"city": {"type": "string"}}, ["city"]),
    ],
)
def test_schema(function: Any, properties: dict[str, Any], required: list[str]) -> None:
    schema = parameters(function)
    assert schema["type"] == "object"
    assert schema["properties"] == properties
    assert schema["required"] == required
    assert schema["additionalProperties"] is False


def test_nested_models_are_closed_and_without_titles() -> None:
    place = parameters(nested)["$defs"]["Place"]
    assert place == {
        "type": "object",
        "properties": {
            "city": {"type": "string"},
            "zip": {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None},
        },
        "required": ["city"],
        "additionalProperties": False,
    }


def test_a_parameter_may_be_called_title_and_defaults_are_data() -> None:
    properties = parameters(titled)["properties"]
    assert properties["title"] == {"type": "string"}
    assert properties["place"]["default"] == {"city": "x", "zip": None}


def test_names_that_pydantic_keeps_for_itself() -> None:
    assert list(parameters(reserved)["properties"]) == ["json", "copy", "_hidden", "model_name"]
    values = bound(reserved).parse('{"json": "j", "copy": 1, "_hidden": true}')
    assert values == {"json": "j", "copy": 1, "_hidden": True, "model_name": "m"}
    assert inspect.signature(reserved).bind(**values)
    with pytest.raises(ToolError, match="copy"):
        bound(reserved).parse('{"json": "j", "copy": "x", "_hidden": true}')


@pytest.mark.parametrize(("function", "strict"), [(nothing, True), (plain, True), (defaults, False)])
def test_strict_is_for_schemas_without_optional_parameters(function: Any, strict: bool) -> None:
    assert bound(function).definition.strict is strict


def test_description_is_the_docstring() -> None:
    async def documented() -> str:
        """Look it up.

        Twice.
        """
        return ""

    assert bound(documented).definition.description == "Look it up.\n\nTwice."
    assert bound(nothing).definition.description == ""


@pytest.mark.parametrize(
    ("function", "text", "values"),
    [
        (nothing, "", {}),
        (nothing, "{}", {}),
        (
            plain,
            '{"city": "x", "days": "3", "ratio": 1, "loud": true}',
            {"city": "x", "days": 3, "ratio": 1.0, "loud": True},
        ),
        (defaults, '{"city": "x"}', {"city": "x", "days": 3, "unit": None}),
        (defaults, '{"city": "x", "unit": null}', {"city": "x", "days": 3, "unit": None}),
        (nested, '{"place": {"city": "x"}}', {"place": Place(city="x")}),
        (lists, '{"values": [1], "table": {"a": 1}}', {"values": [1], "table": {"a": 1.0}}),
    ],
)
def test_arguments(function: Any, text: str, values: dict[str, Any]) -> None:
    assert bound(function).parse(text) == values


@pytest.mark.parametrize(
    ("function", "text", "says"),
    [
        (plain, "{not json", "Invalid JSON"),
        (plain, "[1]", "object"),
        (plain, "null", "object"),
        (plain, '{"city": 1}', "city"),
        (plain, "{}", "days: Field required"),
        (choice, '{"unit": "K"}', "'C' or 'F'"),
        (annotated, '{"days": 8}', "less than or equal to 7"),
        (nested, '{"place": {"zip": 1}}', "place.city"),
    ],
)
def test_bad_arguments_are_told_to_the_model(function: Any, text: str, says: str) -> None:
    with pytest.raises(ToolError) as caught:
        bound(function).parse(text)
    assert says in json.loads(str(caught.value))["error"]


@pytest.mark.parametrize(
    ("result", "text"),
    [
        ("as it is", "as it is"),
        ("", ""),
        (None, "null"),
        (True, "true"),
        ({"ä": 1.5}, '{"ä":1.5}'),
        ([2**70], f"[{2**70}]"),
        ((1, {2}), "[1,[2]]"),
        (Place(city="x"), '{"city":"x","zip":null}'),
        ({"place": Place(city="x")}, '{"place":{"city":"x","zip":null}}'),
    ],
)
def test_results(result: Any, text: str) -> None:
    assert output_text(result) == text


def test_a_result_that_is_no_json() -> None:
    with pytest.raises(TypeError, match="object, which is neither text nor JSON"):
        output_text({"x": object()})


def test_signatures_that_have_no_schema() -> None:
    async def starred(*values: int) -> str: ...
    async def keywords(**values: int) -> str: ...
    async def untyped(value): ...  # type: ignore[no-untyped-def]

    with pytest.raises(TypeError, match=r"tool starred: \*values"):
        bound(starred)
    with pytest.raises(TypeError, match=r"tool keywords: \*values"):
        bound(keywords)
    with pytest.raises(TypeError, match="parameter value needs a type hint"):
        bound(untyped)


def test_tools_of_base_classes_come_first_and_may_be_replaced() -> None:
    class Base:
        @tool
        async def first(self) -> str:
            return "base"

        @tool
        async def second(self) -> str:
            return "base"

        async def no_tool(self) -> str: ...

    class Derived(Base):
        @tool
        async def third(self) -> str: ...

        @tool
        async def first(self) -> str:
            """Mine."""
            return "derived"

    tools = collect_tools(Derived())
    assert list(tools) == ["first", "second", "third"]
    assert tools["first"].definition.description == "Mine."


def test_a_tool_may_have_another_name_than_its_method() -> None:
    class Named:
        log = "the server's logger"

        @tool(name="log")
        async def logarithm(self, number: float) -> float:
            """Takes it."""
            return number

    found = collect_tools(Named())
    assert list(found) == ["log"]
    assert found["log"].definition.name == "log"
    assert found["log"].definition.description == "Takes it."
