"""Small assertions that the conformance suites share."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from gymd.errors import GymdError

__all__ = ["eventually", "expect_error"]


async def expect_error(reason: str, call: Awaitable[object], what: str) -> GymdError:
    """Awaits a call that must fail with a reason of errors.proto; returns the error."""
    try:
        answer = await call
    except GymdError as failure:
        if failure.reason_name == reason:
            return failure
        text = f"{what} failed with {failure.reason_name} ({failure}), expected {reason}"
        raise AssertionError(text) from failure
    raise AssertionError(f"{what} succeeded with {answer!r}, expected {reason}")


async def eventually(condition: Callable[[], object], what: str, timeout: float = 20.0) -> None:
    """Waits until a condition holds that nothing announces; fails after `timeout` seconds."""
    try:
        async with asyncio.timeout(timeout):
            while not condition():  # noqa: ASYNC110 - for what no event announces
                await asyncio.sleep(0.005)
    except TimeoutError:
        raise AssertionError(f"{what} did not happen within {timeout:g} s") from None
