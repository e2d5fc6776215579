"""Hooks of a resources server: methods that name the values they need, in any order, and get just those."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, get_type_hints

import pydantic

from gymapi.v1.responses_pb2 import Response, ResponseCreateParams
from gymapi.v1.rollout_pb2 import Task
from gymd.convert import output_text
from gymd.errors import error
from gymd.sdk.contain import awaited, in_thread

__all__ = ["Hook", "Session", "TaskView", "Values"]


class TaskView:
    """A task as a hook sees it.

    Attributes:
        message: the Task message.
    """

    __slots__ = ("_fields", "message")

    def __init__(self, message: Task) -> None:
        self.message = message
        self._fields: dict[str, Any] | None = None

    @property
    def create_params(self) -> ResponseCreateParams:
        """What the policy was asked."""
        return self.message.create_params

    @property
    def fields(self) -> dict[str, Any]:
        """The row's own keys; raises InvalidRequest when they are not a JSON object."""
        if self._fields is None:
            try:
                # Not orjson, which makes floats of integers beyond 64 bits without a word.
                fields = json.loads(self.message.fields_json or "{}")
            except (ValueError, RecursionError) as failure:
                raise error("INVALID_REQUEST", f"the task's fields are not JSON: {failure}") from None
            if not isinstance(fields, dict):
                raise error("INVALID_REQUEST", "the task's fields are not a JSON object", field="fields_json")
            self._fields = fields
        return self._fields


class Session:
    """The state of one rollout in a resources server.

    Attributes:
        id: the caller's id.
        state: whatever the server keeps; set it in seed_session. None before.
        task: the task it was seeded with.
    """

    __slots__ = (
        "_quiet",
        "_running",
        "answers",
        "id",
        "idle_limit",
        "last_used",
        "request_id",
        "seeding",
        "state",
        "task",
    )

    def __init__(self, session_id: str, task: TaskView, request_id: str, idle_limit: float) -> None:
        self.id = session_id
        self.state: Any = None
        self.task = task
        self.request_id = request_id
        self.idle_limit = idle_limit
        self.last_used = 0.0
        # call_id -> what the tool answered (or is about to), so that a repeated call is not applied twice.
        self.answers: dict[str, asyncio.Future[Any]] = {}
        # While seed_session runs; a repeat that comes meanwhile waits for it.
        self.seeding: asyncio.Future[None] | None = None
        # Hooks and tools that run, and what tells that none does.
        self._running = 0
        self._quiet: asyncio.Event | None = None

    def idle_since(self, now: float) -> float:
        """Seconds without a call at loop time `now`; 0 while a hook or a tool runs."""
        return 0.0 if self.at_work else now - self.last_used

    @property
    def at_work(self) -> bool:
        """Whether a hook or a tool runs."""
        return self._running > 0

    def begin(self) -> None:
        """A hook or a tool begins; call `end` when it ended, in whatever way."""
        self._running += 1

    def end(self) -> None:
        """It ended."""
        self._running -= 1
        if not self._running and self._quiet is not None:
            self._quiet.set()

    async def quiet(self, seconds: float) -> bool:
        """Waits until no hook and no tool runs; False: one still does after so many seconds."""
        if self.at_work:
            self._quiet = self._quiet or asyncio.Event()
            self._quiet.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._quiet.wait()
        return not self.at_work


class Values:
    """What a hook may ask for; computed only when a hook names it."""

    __slots__ = ("outcome", "response", "session", "task")

    def __init__(
        self, session: Session | None, task: TaskView, response: Response | None = None, outcome: int = 0
    ) -> None:
        self.session = session
        self.task = task
        self.response = response
        self.outcome = outcome


class Hook:
    """One hook method.

    Args:
        function: the bound method.
        executor: where it runs if it is no coroutine function.
    """

    KNOWN = ("session", "task", "response", "text", "outcome", "create_params")

    def __init__(self, function: Callable[..., Any], executor: Callable[[], ThreadPoolExecutor]) -> None:
        self.function = function
        self._executor = executor
        self._is_async = inspect.iscoroutinefunction(function)
        parameters = inspect.signature(function).parameters
        self.names = tuple(parameters)
        for name in self.names:
            if name not in self.KNOWN:
                known = ", ".join(self.KNOWN)
                raise TypeError(
                    f"{function.__qualname__}: no value {name!r} for this hook; there are: {known}"
                )
        hint = get_type_hints(function).get("task")
        is_model = isinstance(hint, type) and issubclass(hint, pydantic.BaseModel)
        self.task_model: type[pydantic.BaseModel] | None = hint if is_model else None
        session = parameters.get("session")
        # With a default (`session: Session | None = None`) it takes the session if there is one.
        self.needs_session = session is not None and session.default is inspect.Parameter.empty

    def check_task(self, task: TaskView) -> None:
        """Raises InvalidRequest when the task's fields do not fit the model that the hook declares."""
        if self.task_model is not None:
            self._typed_task(task)

    async def __call__(self, values: Values) -> Any:
        arguments = {name: self._value(name, values) for name in self.names}
        name = self.function.__name__
        if self._is_async:
            return await awaited(self.function(**arguments), name)
        return await in_thread(self._executor(), lambda: self.function(**arguments), name)

    def _value(self, name: str, values: Values) -> Any:
        if name == "task":
            return values.task if self.task_model is None else self._typed_task(values.task)
        if name == "create_params":
            return values.task.create_params
        if name == "text":
            return output_text(values.response) if values.response is not None else ""
        return getattr(values, name)

    def _typed_task(self, task: TaskView) -> pydantic.BaseModel:
        assert self.task_model is not None
        try:
            return self.task_model.model_validate_json(task.message.fields_json or "{}")
        except pydantic.ValidationError as failure:
            details = "; ".join(
                f"{'.'.join(map(str, problem['loc'])) or 'fields'}: {problem['msg']}"
                for problem in failure.errors(include_url=False, include_context=False)
            )
            text = f"the task's fields do not fit {self.task_model.__name__}: {details}"
            raise error("INVALID_REQUEST", text, field="fields_json") from None
