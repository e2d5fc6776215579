"""Tools: typed methods of a resources server that a model may call."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from typing import Any, TypeVar, get_type_hints, overload

import orjson
import pydantic

from gymapi.v1.responses_pb2 import FunctionTool

__all__ = ["BoundTool", "ToolError", "collect_tools", "tool"]

F = TypeVar("F", bound=Callable[..., Any])

_MARK = "__gymd_tool__"
INJECTED = frozenset({"self", "session"})
_VALUES = frozenset({"default", "const", "enum", "examples"})
"""Keywords of a JSON schema whose value is data, not a schema."""


class ToolError(Exception):
    """Raised by a tool to refuse: the text is answered to the model with is_error."""


@overload
def tool(function: F) -> F: ...


@overload
def tool(*, name: str) -> Callable[[F], F]: ...


def tool(function: F | None = None, *, name: str = "") -> F | Callable[[F], F]:
    """Marks a method of a ResourcesServer as a tool: `@tool`, or `@tool(name="log")`.

    Its docstring becomes the description, and its typed parameters the JSON schema. A parameter called
    `session` receives the session and is not shown to the model. `async def` runs on the event loop; `def`
    runs in a thread.

    Args:
        name: what the model calls it, where the method cannot be called that; by default the method's name.
    """
    if function is None:
        return lambda method: _marked(method, name)
    return _marked(function, function.__name__)


def _marked(function: F, name: str) -> F:
    setattr(function, _MARK, name)
    return function


class BoundTool:
    """A tool of one server: its schema, and how to call it with the model's arguments."""

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        self.name = name
        self.function = function
        self.is_async = inspect.iscoroutinefunction(function)
        parameters = inspect.signature(function).parameters
        self.wants_session = "session" in parameters
        self._arguments = _arguments_model(name, function, parameters)
        self._names = {field: info.alias or field for field, info in self._arguments.model_fields.items()}
        schema = _schema(self._arguments)
        self.definition = FunctionTool(
            name=name,
            description=inspect.cleandoc(function.__doc__ or ""),
            # OpenAI's strict mode refuses a schema with optional parameters.
            strict=set(schema["required"]) == set(schema["properties"]),
            parameters_json=orjson.dumps(schema).decode(),
        )

    def parse(self, arguments_json: str) -> dict[str, Any]:
        """The keyword arguments for the function; raises ToolError with a text for the model."""
        try:
            values = self._arguments.model_validate_json(arguments_json or "{}")
        except pydantic.ValidationError as failure:
            details = "; ".join(
                f"{'.'.join(map(str, problem['loc'])) or 'arguments'}: {problem['msg']}"
                for problem in failure.errors(include_url=False, include_context=False)
            )
            raise ToolError(error_text(f"Invalid tool call arguments: {details}")) from None
        return {name: getattr(values, field) for field, name in self._names.items()}


def error_text(message: str) -> str:
    """The text by which a model is told that its call failed."""
    # Half a surrogate pair, from a file's name or out of JSON, is no text that can be sent.
    return orjson.dumps({"error": message.encode(errors="backslashreplace").decode()}).decode()


def output_text(result: Any) -> str:
    """What the model reads: text as it is, everything else as JSON."""
    if isinstance(result, str):
        return result
    if isinstance(result, pydantic.BaseModel):
        return result.model_dump_json()
    return json_text(result, _plain)


def json_text(value: Any, default: Callable[[Any], Any]) -> str:
    """JSON of any value, integers of any size included, which orjson refuses."""
    try:
        return orjson.dumps(value, default=default).decode()
    except TypeError:
        return json.dumps(value, default=default, ensure_ascii=False, separators=(",", ":"))


def _plain(value: Any) -> Any:
    if isinstance(value, pydantic.BaseModel):
        return value.model_dump(mode="json")
    if isinstance(value, set | frozenset | tuple):
        return list(value)
    raise TypeError(f"a tool returned {type(value).__name__}, which is neither text nor JSON")


def collect_tools(server: object) -> dict[str, BoundTool]:
    """The tools of a server by name, base classes first, in the order of their definition."""
    methods: dict[str, str] = {}
    for cls in reversed(type(server).__mro__):
        for method, value in vars(cls).items():
            if name := getattr(value, _MARK, ""):
                methods[name] = method
    return {name: BoundTool(name, getattr(server, method)) for name, method in methods.items()}


def _arguments_model(name: str, function: Callable[..., Any], parameters: Any) -> type[pydantic.BaseModel]:
    hints = get_type_hints(function, include_extras=True)
    fields: dict[str, Any] = {}
    for parameter in parameters.values():
        if parameter.name in INJECTED:
            continue
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise TypeError(f"tool {name}: *{parameter.name} has no JSON schema; name each parameter")
        if parameter.name not in hints:
            raise TypeError(f"tool {name}: parameter {parameter.name} needs a type hint")
        default = ... if parameter.default is parameter.empty else parameter.default
        field = parameter.name
        if hasattr(pydantic.BaseModel, field) or field.startswith(("_", "model_")):
            # pydantic keeps such names (`json`, `copy`) for itself; the model still sees the parameter's own.
            field, default = f"p_{field}", pydantic.Field(default, alias=parameter.name)
        fields[field] = (hints[parameter.name], default)
    return pydantic.create_model(name, **fields)


def _schema(model: type[pydantic.BaseModel]) -> dict[str, Any]:
    """The JSON schema without pydantic's titles, closed against further keys."""
    schema = _plain_schema(model.model_json_schema())
    schema.setdefault("properties", {})
    schema.setdefault("required", [])
    schema.pop("description", None)
    schema["additionalProperties"] = False
    return schema


def _plain_schema(node: Any) -> Any:
    if isinstance(node, list):
        return [_plain_schema(value) for value in node]
    if not isinstance(node, dict):
        return node
    # A property may be called `title`: only the keyword next to other schema keywords is pydantic's.
    cleaned: dict[str, Any] = {}
    for key, value in node.items():
        if key == "title" and isinstance(value, str):
            continue
        if key in ("properties", "$defs"):
            cleaned[key] = {name: _plain_schema(child) for name, child in value.items()}
        elif key in _VALUES:
            cleaned[key] = value
        else:
            cleaned[key] = _plain_schema(value)
    if "properties" in cleaned:
        cleaned.setdefault("additionalProperties", False)
    return cleaned
