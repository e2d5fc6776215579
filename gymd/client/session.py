"""One session of StreamRollouts: tasks go in as credits allow, results come out in order."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Iterable
from contextlib import aclosing
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from google.protobuf.duration_pb2 import Duration

from gymapi.v1.agent_service_pb2 import Deadlines
from gymapi.v1.rollout_service_pb2 import (
    CANCEL_MODE_ABORT,
    CancelWork,
    Draining,
    OpenSession,
    Progress,
    RolloutResult,
    SessionOpened,
    SessionSummary,
    StreamRolloutsResponse,
    TaskSubmission,
)
from gymd.client.outbox import Outbox
from gymd.client.stream import Stream
from gymd.client.window import CreditWindow
from gymd.errors import GymdError, error, from_status_message

__all__ = ["Rejection", "RolloutSession", "deadlines"]

Submissions = Iterable[TaskSubmission] | AsyncIterable[TaskSubmission]

# Room that a frame needs around its only task.
_FRAME_OVERHEAD_BYTES = 64


@dataclass(frozen=True, slots=True)
class Rejection:
    """The daemon (or the client, for a task larger than a message may be) refused a task; it cost nothing."""

    task_id: str
    error: GymdError


def deadlines(
    *,
    rollout: float | None = None,
    queue: float | None = None,
    model: float | None = None,
    tool: float | None = None,
    verify: float | None = None,
) -> Deadlines:
    """Limits of the parts of a rollout, in seconds; None leaves a part to the daemon's configuration."""
    message = Deadlines()
    parts = {"rollout": rollout, "queue": queue, "model": model, "tool": tool, "verify": verify}
    for name, seconds in parts.items():
        if seconds is not None:
            getattr(message, name).CopyFrom(Duration(seconds=int(seconds), nanos=int(seconds % 1 * 1e9)))
    return message


class RolloutSession:
    """A session of the rollout stream; made by `RolloutClient.session`, used as an async context manager.

    Leaving the context before `run` has ended breaks the stream, which cancels everything under way.

    Attributes:
        progress: the daemon's latest progress frame; zeros until the first.
        draining: set once the daemon announced its shutdown.
        summary: set when the session has ended in order.
    """

    def __init__(self, stream: Stream, opening: OpenSession, credits: int) -> None:
        self._stream = stream
        self._opening = opening
        self._window = CreditWindow(credits)
        self._opening.granted_rollouts = credits
        self._inbox: deque[RolloutResult | Rejection] = deque()  # bounded by the credits
        self._outbox = Outbox(self._window)
        self._cancels: deque[asyncio.Future[int]] = deque()
        self._arrived = asyncio.Event()  # something for the consumer of run()
        self._room = asyncio.Event()  # something for the feeder
        self._work = asyncio.Event()  # something for the writer
        self._tasks: list[asyncio.Task[None]] = []
        self._failure: GymdError | None = None
        self._feeding = False
        self._exhausted = True  # the submissions of the current run came to their end
        self._stopped = False
        self._closing = False
        self._ended = False
        self._idle = False
        self._running = False
        self._last_sequence = 0
        self.opened = SessionOpened()
        self.progress = Progress()
        self.draining: Draining | None = None
        self.summary: SessionSummary | None = None

    @property
    def session_id(self) -> str:
        """The daemon's id of the session."""
        return self.opened.session_id

    @property
    def outstanding(self) -> int:
        """Rollouts handed in whose results the caller has not consumed yet."""
        return self._window.outstanding

    async def __aenter__(self) -> Self:
        self.opened = await self._stream.open(self._opening)
        self._tasks = [asyncio.create_task(self._read_loop()), asyncio.create_task(self._write_loop())]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stream.cancel()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._fail_cancels(error("CANCELLED", "the session was closed"))

    def run(
        self, submissions: Submissions, *, final: bool = True
    ) -> AsyncIterator[RolloutResult | Rejection]:
        """Runs tasks and yields one RolloutResult for each rollout, in the order of their numbers.

        Submissions are pulled one by one on the event loop, only when there is a credit for them, so a source
        of any length needs memory for `credits` rollouts. A result counts as stored (it is acknowledged and
        its credit used again) when the caller asks for the next. Refused tasks come as Rejection.

        Args:
            submissions: the tasks; `task_id` unique within the session. A plain iterable must not block.
            final: no more runs follow: the session ends and `summary` is set when this run is over.

        Raises:
            GymdError: the stream failed (Unavailable: the daemon went away or is shutting down). Every result
                that was received has been yielded before.
        """
        if self._running or self._closing:
            raise error("PROTOCOL_VIOLATION", "this session runs or has ended; open another session")
        self._running = True
        return self._run(submissions, final)

    async def _run(self, submissions: Submissions, final: bool) -> AsyncIterator[RolloutResult | Rejection]:
        self._exhausted, self._feeding = False, True
        feeder = asyncio.create_task(self._feed(submissions))
        inbox, window = self._inbox, self._window
        try:
            while True:
                while inbox:
                    item = inbox.popleft()
                    yield item
                    if type(item) is RolloutResult:
                        window.consumed += 1
                        if self._feeding and window.worth_refilling():
                            self._room.set()
                if feeder.done():
                    feeder.result()  # an exception of the caller's own source goes to the caller
                if self._failure is not None:
                    raise self._failure
                if not self._feeding and window.outstanding == 0 and not inbox:
                    break
                self._idle = True
                self._work.set()
                self._room.set()
                self._arrived.clear()
                await self._arrived.wait()
            if final:
                await self._close()
        finally:
            self._running = False
            feeder.cancel()
            await asyncio.gather(feeder, return_exceptions=True)
        if self.draining is not None and not self._exhausted and not self._stopped:
            raise self._drained()

    def stop(self) -> None:
        """Takes no more submissions; what is handed in already goes on, and `run` ends when it is done."""
        self._stopped = True
        self._outbox.drop_tasks()
        self._room.set()
        self._arrived.set()

    def abandon(self) -> None:
        """Breaks the stream at once, which cancels everything under way; `run` raises Cancelled."""
        self._stream.abandon()

    async def cancel(
        self,
        *,
        task_id: str = "",
        group_id: str = "",
        agent: str = "",
        everything: bool = False,
        reason: str = "",
    ) -> int:
        """Stops the rollouts of one task, one group, one agent, or all that were handed in so far.

        Their results still come, with outcome CANCELLED. Give exactly one scope.

        Returns: how many rollouts were stopped by it.
        """
        scopes = {"task_id": task_id, "group_id": group_id, "agent": agent, "all": everything}
        scope: dict[str, Any] = {name: value for name, value in scopes.items() if value}
        if len(scope) != 1:
            raise error("INVALID_REQUEST", "cancel needs exactly one of task_id, group_id, agent, everything")
        if self._failure is not None or self._ended or self._closing:
            raise self._failure or error("CANCELLED", "the session has ended: there is nothing to cancel")
        answer: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._cancels.append(answer)
        self._outbox.add_cancel(CancelWork(**scope, mode=CANCEL_MODE_ABORT, reason=reason))
        self._work.set()
        return await answer

    # ---- feeding: submissions -> outbox

    async def _feed(self, submissions: Submissions) -> None:
        try:
            source = _as_async(submissions)
            async with aclosing(source):
                while await self._wait_for_room(1):
                    try:
                        submission = await anext(source)
                    except StopAsyncIteration:
                        self._exhausted = True
                        break
                    count = submission.rollout_count or 1
                    if not await self._wait_for_room(count):
                        break
                    self._hand_in(submission)
        finally:
            self._feeding = False
            self._arrived.set()

    async def _wait_for_room(self, count: int) -> bool:
        """Waits until a task may be handed in; False: none may any more."""
        while not self._stopped and self.draining is None and not self._ended:
            if not self._outbox.full and self._window.has_room(count):
                return True
            self._room.clear()
            await self._room.wait()
        return False

    def _hand_in(self, submission: TaskSubmission) -> None:
        size = submission.ByteSize()
        limit = self.opened.max_message_bytes
        if limit and size + _FRAME_OVERHEAD_BYTES > limit:
            text = f"task {submission.task_id} has {size:,} bytes; the daemon accepts {limit:,} in a message"
            refusal = error("MESSAGE_TOO_LARGE", text, size_bytes=size, limit_bytes=limit)
            self._inbox.append(Rejection(submission.task_id, refusal))
            self._arrived.set()
            return
        self._outbox.add(submission, size)
        self._work.set()

    # ---- writing: outbox -> frames

    async def _write_loop(self) -> None:
        while True:
            await self._work.wait()
            self._work.clear()
            while (frame := self._outbox.next_frame(idle=self._idle or self._closing)) is not None:
                if not self._room.is_set():
                    self._room.set()  # the frame made room in the outbox
                if not await self._stream.write(frame):
                    return
            self._idle = False
            if self._closing:
                await self._stream.done_writing()
                return

    async def _close(self) -> None:
        """Half-closes and waits for the summary and the end of the stream."""
        self._closing = True
        self._work.set()
        while not self._ended and self._failure is None:
            self._arrived.clear()
            await self._arrived.wait()
        if self._failure is not None:
            raise self._failure

    # ---- reading: frames -> inbox

    async def _read_loop(self) -> None:
        try:
            async for frame in self._stream.frames(self.opened.progress_interval):
                self._take(frame)
            if self.summary is None:
                raise error("PEER_UNREACHABLE", "the daemon ended the stream without a summary")
            waiting = sum(1 for item in self._inbox if type(item) is RolloutResult)
            if self._window.outstanding > waiting:
                raise self._drained()
        except GymdError as failure:
            self._failure = failure
            self._fail_cancels(failure)
        finally:
            self._ended = True
            self._fail_cancels(error("CANCELLED", "the session has ended"))
            self._room.set()
            self._arrived.set()

    def _take(self, frame: StreamRolloutsResponse) -> None:
        kind = frame.WhichOneof("frame")
        if kind == "results":
            for result in frame.results.results:
                self._last_sequence += 1
                if result.sequence != self._last_sequence:
                    text = f"result {result.sequence} came where {self._last_sequence} was due"
                    raise error("PROTOCOL_VIOLATION", text, sequence=result.sequence, due=self._last_sequence)
                self._inbox.append(result)
            self._arrived.set()
        elif kind == "admissions":
            self._take_admissions(frame)
        elif kind == "progress":
            self.progress = frame.progress
        elif kind == "cancelled":
            if self._cancels:
                _resolve(self._cancels.popleft(), frame.cancelled.cancelled_count)
        elif kind == "draining":
            self.draining = frame.draining
            self._room.set()
            self._arrived.set()
        elif kind == "summary":
            self.summary = frame.summary
        # Any other frame belongs to a feature that this client did not ask for, or to a newer daemon.

    def _take_admissions(self, frame: StreamRolloutsResponse) -> None:
        for admission in frame.admissions.admissions:
            rejected = admission.HasField("rejection")
            self._outbox.answer(admission.task_id, rejected=rejected)
            if rejected:
                refusal = from_status_message(admission.rejection)
                self._inbox.append(Rejection(admission.task_id, refusal))
                self._room.set()
                self._arrived.set()

    def _fail_cancels(self, failure: GymdError) -> None:
        while self._cancels:
            answer = self._cancels.popleft()
            if not answer.done():
                answer.set_exception(failure)

    def _drained(self) -> GymdError:
        if self.draining is None:
            return error("PEER_UNREACHABLE", "the daemon ended the stream before all rollouts were delivered")
        why = self.draining.reason or "no reason given"
        text = f"the daemon is shutting down ({why}); not every task was handed in"
        return error("DRAINING", text, why=why)


def _resolve(answer: asyncio.Future[int], value: int) -> None:
    if not answer.done():  # the caller of cancel() may be gone
        answer.set_result(value)


async def _as_async(items: Submissions) -> AsyncGenerator[TaskSubmission, None]:
    if isinstance(items, AsyncIterable):
        async for item in items:
            yield item
    else:
        for item in items:
            yield item
