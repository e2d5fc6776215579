"""Cancelling tasks together: what they wait for outside is ended before one of them unwinds."""

import asyncio
from collections.abc import Callable

from gymd.mesh import cancel_all, on_cancel


class Requests:
    """Tasks that wait, and the order of what happens to them."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.forget: dict[str, Callable[[], None]] = {}

    async def wait(self, name: str) -> None:
        self.forget[name] = on_cancel(lambda: self.events.append(f"{name} aborted"))
        try:
            await asyncio.Event().wait()
        finally:
            self.forget[name]()
            self.events.append(f"{name} unwound")

    async def begin(self, *names: str) -> list[asyncio.Task[None]]:
        tasks = [asyncio.create_task(self.wait(name)) for name in names]
        await asyncio.sleep(0)
        return tasks


async def test_all_are_aborted_before_one_unwinds() -> None:
    requests = Requests()
    tasks = await requests.begin("a", "b")
    other = asyncio.create_task(asyncio.Event().wait())
    cancel_all([*tasks, other])
    await asyncio.wait([*tasks, other])
    assert requests.events == ["a aborted", "b aborted", "a unwound", "b unwound"]
    assert all(task.cancelled() for task in [*tasks, other])


async def test_what_is_over_is_not_aborted() -> None:
    requests = Requests()
    tasks = await requests.begin("a")
    requests.forget["a"]()
    cancel_all(tasks)
    await asyncio.wait(tasks)
    assert requests.events == ["a unwound"]


async def test_an_earlier_request_does_not_forget_a_later_one() -> None:
    events: list[str] = []

    async def two() -> None:
        first = on_cancel(lambda: events.append("first"))
        second = on_cancel(lambda: events.append("second"))
        first()
        try:
            await asyncio.Event().wait()
        finally:
            second()

    task = asyncio.create_task(two())
    await asyncio.sleep(0)
    cancel_all([task])
    await asyncio.wait([task])
    assert events == ["second"]
