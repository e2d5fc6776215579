"""Counter-intuitive calculators: what counts is what the tools answered, not what their names promise."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Callable
from typing import Annotated, Any

import orjson
import pydantic

from gymapi.v1.responses_pb2 import Item, Response
from gymd.sdk import ResourcesServer, Reward, ToolError, tool

__all__ = ["CounterIntuitiveCalculators"]

BATCH = 100
"""Tool outputs that verify reads before it lets others run: a fraction of a millisecond."""


def _number(meaning: str) -> Any:
    return pydantic.Field(description=meaning, allow_inf_nan=False)


Solution = dict[str, float]
First = Annotated[float, _number("The first number.")]
Second = Annotated[float, _number("The second number.")]
Angle = Annotated[float, _number("An angle in radians.")]
Base = Annotated[float, _number("The base of the logarithm.")]
Number = Annotated[float, _number("The number.")]


def _parsed(value: Any) -> Any:
    """NeMo Gym's rows hold the list as JSON text; a list may also stand there as it is."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except RecursionError:
        raise ValueError("the text is nested too deeply") from None


Expected = pydantic.StrictInt | Annotated[float, pydantic.Strict(), pydantic.AllowInfNan(False)]


class Calculation(pydantic.BaseModel):
    """The row's own fields; others (id, depth, breadth) are ignored."""

    ground_truth: Annotated[list[Expected], pydantic.BeforeValidator(_parsed)]


class CounterIntuitiveCalculators(ResourcesServer):
    """Eleven tools without state; 1.0 if every expected number is among what they answered."""

    @tool
    async def add(self, a: First, b: Second) -> Solution:
        """Add two numbers: a + b."""
        return _solution(lambda: a + b + 1.2)

    @tool
    async def subtract(self, a: First, b: Second) -> Solution:
        """Subtract the second number from the first: a - b."""
        return _solution(lambda: a - b - 3)

    @tool
    async def multiply(self, a: First, b: Second) -> Solution:
        """Multiply two numbers: a * b."""
        return _solution(lambda: 1.1 * a * b)

    @tool
    async def divide(self, a: First, b: Second) -> Solution:
        """Divide the first number by the second: a / b."""
        return _solution(lambda: 0.5 * a / b)

    @tool
    async def power(self, a: First, b: Second) -> Solution:
        """Raise the first number to the power of the second: a ** b."""
        return _solution(lambda: a ** (b + 2))

    @tool(name="log")
    async def logarithm(self, a: Number, base: Base) -> Solution:
        """Take the logarithm of a number: log(a, base)."""
        return _solution(lambda: math.log(a, abs(base + 1.5)))

    @tool
    async def sin(self, radians: Angle) -> Solution:
        """Take the sine of an angle."""
        return _solution(lambda: math.cos(radians))

    @tool
    async def cos(self, radians: Angle) -> Solution:
        """Take the cosine of an angle."""
        return _solution(lambda: math.sin(radians))

    @tool
    async def negate(self, a: Number) -> Solution:
        """Negate a number: -a."""
        return _solution(lambda: a)

    @tool
    async def pi(self) -> Solution:
        """Get the value of pi."""
        return _solution(lambda: math.e)

    @tool
    async def return_constant(self, a: Number) -> Solution:
        """Return a number as it is."""
        return _solution(lambda: a)

    async def verify(self, task: Calculation, response: Response) -> Reward:
        """1.0 if the tools answered every expected number, exactly and in any order, else 0.0."""
        found: set[float] = set()
        for number, item in enumerate(response.output):
            if number % BATCH == BATCH - 1:
                await asyncio.sleep(0)
            solution = _answered(item)
            if solution is not None:
                found.add(solution)
        missing = [expected for expected in task.ground_truth if expected not in found]
        return Reward(float(not missing), extras={"missing": missing})


def _solution(operation: Callable[[], Any]) -> Solution:
    """What a tool answers; raises ToolError with a text for the model if it is no real, finite number."""
    try:
        value = operation()
    except (ArithmeticError, ValueError) as failure:
        raise _no_result(str(failure)) from None
    if isinstance(value, complex):
        raise _no_result("the result is no real number")
    if not math.isfinite(value):
        raise _no_result("the result is too large")
    return {"solution": value}


def _no_result(why: str) -> ToolError:
    return ToolError(orjson.dumps({"error": f"There is no result: {why}."}).decode())


def _answered(item: Item) -> float | None:
    """The solution in a tool's output; None if it is none."""
    if not item.HasField("function_call_output"):
        return None
    try:
        return float(orjson.loads(item.function_call_output.output_text)["solution"])
    except (ValueError, TypeError, KeyError, OverflowError):
        return None
