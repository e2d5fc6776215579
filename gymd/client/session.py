"""One session of StreamRollouts: tasks go in as credits allow, results come out in order."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from types import TracebackType
from typing import Self

from gymapi.v1.rollout_service_pb2 import (
    Draining,
    OpenSession,
    PolicyUpdateAck,
    Progress,
    RolloutResult,
    SessionOpened,
    SessionSummary,
    StreamRolloutsRequest,
    StreamRolloutsResponse,
    TaskSubmission,
)
from gymd.client.chunks import ChunkReader
from gymd.client.controls import CancelWord, Controls, InflightWord, PhaseWord, cancel_work, policy_update
from gymd.client.outbox import Outbox
from gymd.client.policy import PolicyRunner
from gymd.client.sources import Rejection, Submissions, as_async, too_large
from gymd.client.stream import BROKEN, Stream, client_bug, dial, ended_early, reopening
from gymd.client.window import CreditWindow
from gymd.errors import GymdError, error

__all__ = ["RolloutSession"]

# Whole sentences, other than in our own processes: what a trainer's logging shows is often only the message.
log = logging.getLogger(__name__)

_GIVE_UP_S = 1.0


class RolloutSession:
    """A session of the rollout stream; made by `RolloutClient.session`, used as an async context manager.

    Leaving the context before `run` has ended gives the session up, which cancels everything under way.
    With a resume window a broken connection is dialled again for as long as the window says: nothing is lost
    and nothing comes twice, also when the daemon was restarted meanwhile.

    Attributes:
        progress: the daemon's latest progress frame; zeros until the first.
        draining: set once the daemon announced its shutdown.
        summary: set when the session has ended in order.
        reconnects: how often the connection broke and came back.
        inherited: tasks of an earlier process, whose results come in this one: each is passed over once.
    """

    def __init__(
        self,
        new_stream: Callable[[], Stream],
        opening: OpenSession,
        credits: int,
        byte_credits: int = 0,
        policy: PolicyRunner | None = None,
        patience: float = 0.0,
    ) -> None:
        self._new_stream = new_stream
        self._stream: Stream  # once it is open
        self._patience = patience
        self._opening = opening
        self._window = CreditWindow(credits, byte_credits)
        if not opening.session_id:
            self._opening.granted_rollouts = credits
            self._opening.granted_bytes = byte_credits
        self._inbox: deque[RolloutResult | Rejection] = deque()  # bounded by the credits
        self._outbox = Outbox(self._window)
        self._controls = Controls(self._outbox)
        self._chunks = ChunkReader()
        self._arrived = asyncio.Event()  # something for the consumer of run()
        self._room = asyncio.Event()  # something for the feeder
        self._work = asyncio.Event()  # something for the writer
        self._policy = policy
        if policy is not None:
            opening.serves_policy = True
            policy.bind(self._work.set)
        self._connection: asyncio.Task[None] | None = None
        self._failure: GymdError | None = None
        self._feeding = False
        self._exhausted = True  # the submissions of the current run came to their end
        self._stopped = False
        self._closing = False
        self._ended = False
        self._leaving = False
        self._detached = False
        self._idle = False
        self._running = False
        self._last_sequence = 0
        self.reconnects = 0
        self.inherited: frozenset[str] = frozenset()
        self._to_come: set[str] = set()  # those of them that were not handed in here
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
        self._stream, self.opened = await dial(self._new_stream, self._opening, self._patience)
        if self._opening.session_id:
            self._last_sequence = self._opening.last_sequence
            self.inherited = frozenset(self.opened.task_ids)
            self._to_come.update(self.inherited)
            self._window.adopt(
                consumed=self._last_sequence,
                used=self.opened.used_rollouts,
                granted=self.opened.granted_rollouts,
                granted_bytes=self.opened.granted_bytes,
                consumed_bytes=self.opened.sent_bytes,
            )
        self._controls.begin(self.opened)
        self._connection = asyncio.create_task(self._stay_connected())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leaving = True
        if self._connection is not None:
            try:
                if self.resumable and not self._ended and not self._detached:
                    self._outbox.give_up()
                    self._work.set()
                    await asyncio.wait([self._connection], timeout=_GIVE_UP_S)
            finally:  # if the daemon did not end the stream, the session expires by itself
                self._stream.cancel()
                self._connection.cancel()
                await asyncio.gather(self._connection, return_exceptions=True)
        self._controls.fail(error("CANCELLED", "the session was closed"))

    @property
    def resumable(self) -> bool:
        """Whether the session outlives a broken connection."""
        return self.opened.HasField("resume_window")

    def run(
        self, submissions: Submissions, *, final: bool = True
    ) -> AsyncIterator[RolloutResult | Rejection]:
        """Runs tasks and yields one RolloutResult for each rollout, in the order of their numbers.

        Submissions are pulled one by one on the event loop, only when there is a credit for them, so a source
        of any length needs memory for `credits` rollouts. A result counts as stored (it is acknowledged and
        its credit used again) when the caller asks for the next or leaves. Refused tasks come as Rejection.

        Args:
            submissions: the tasks; `task_id` unique within the session. A plain iterable must not block.
            final: no more runs follow: the session ends and `summary` is set when this run is over.

        Raises:
            GymdError: the stream failed (Unavailable: the daemon went away or is shutting down, and did not
                come back within the resume window). Every result that was received has been yielded before.
        """
        self._check_free()
        return self._run(submissions, final)

    async def _run(self, submissions: Submissions, final: bool) -> AsyncIterator[RolloutResult | Rejection]:
        self._check_free()
        self._running, self._exhausted, self._feeding = True, False, True
        feeder = asyncio.create_task(self._feed(submissions))
        inbox, window = self._inbox, self._window
        try:
            while True:
                while inbox:
                    item = inbox.popleft()
                    try:
                        yield item
                    finally:  # also when the caller leaves: another run may follow
                        if type(item) is RolloutResult:
                            window.consume(item.rollout.ByteSize() if window.byte_credits else 0)
                    if self._feeding and window.worth_refilling():
                        self._room.set()
                if feeder.done():
                    feeder.result()  # an exception of the caller's own source goes to the caller
                if self._failure is not None:
                    raise self._failure
                if window.outstanding <= 0 and (not self._feeding or self._stopped or self._ended):
                    break  # a source that does not say more is not waited for
                if self._ended:
                    raise ended_early(self.draining)  # nothing comes any more
                self._idle = True
                self._work.set()
                self._room.set()
                self._arrived.clear()
                await self._arrived.wait()
            if final:
                await self._close()
            self._idle = True  # what was consumed is acknowledged before another run begins
            self._work.set()
        finally:
            self._running = False
            feeder.cancel()
            await asyncio.gather(feeder, return_exceptions=True)
        if not (self._exhausted or self._stopped):
            raise ended_early(self.draining)

    def hold_acks(self, through: int) -> None:
        """From now on, results above this number are not acknowledged; call it again to move on."""
        self._window.stored = through
        self._work.set()

    def detach(self) -> None:
        """Leaving the context will not give the session up: another process may resume it."""
        self._detached = True

    def _check_free(self) -> None:
        self._check_open()
        if self._running or self._closing:
            raise error("PROTOCOL_VIOLATION", "this session runs or has ended; open another session")

    def stop(self) -> None:
        """Takes no more submissions; what is handed in already goes on, and `run` ends when it is done."""
        self._stopped = True
        self._outbox.drop_tasks()
        self._room.set()
        self._arrived.set()

    def abandon(self) -> None:
        """Breaks the stream at once, which cancels everything under way; `run` raises Cancelled."""
        if not self._ended and self._failure is None:
            self._failure = error("CANCELLED", "the stream was broken off")
            self._controls.fail(self._failure)
        if self._connection is not None:
            self._stream.abandon()
            self._connection.cancel()  # it may be between two streams
        self._room.set()
        self._arrived.set()

    async def cancel(
        self,
        *,
        task_id: str = "",
        group_id: str = "",
        agent: str = "",
        rollout_id: str = "",
        environment: str = "",
        older_than_version: int | None = None,
        everything: bool = False,
        mode: CancelWord = "abort",
        reason: str = "",
    ) -> int:
        """Stops the rollouts of one scope, of which exactly one is given. Their results still come.

        Args:
            rollout_id: one rollout: `<task_id>/<index>`, where index counts from the task's `first_index`.
            environment: name of a resources server: every rollout whose agent works with it.
            everything: all that were handed in so far, none of those after; also if the connection breaks.
            mode: abort: outcome CANCELLED, nothing is kept. partial: what was generated is kept, outcome
                PARTIAL. finish_turn: the same, after the model call under way.

        Returns: how many rollouts were stopped by it.

        Raises:
            NotFound: no agent is known to work with the environment.
            Unimplemented: the daemon is too old to know the scope.
        """
        self._check_alive()
        named = {"task_id": task_id, "group_id": group_id, "agent": agent, "everything": everything}
        named |= {"rollout_id": rollout_id, "environment": environment}
        known = self.opened.features
        work = cancel_work(mode, reason, known, **named, older_than_version=older_than_version)
        answer = self._controls.cancel(work)
        self._work.set()
        return await answer

    async def update_policy(
        self, version: int, phase: PhaseWord = "live", *, inflight: InflightWord = "continue"
    ) -> PolicyUpdateAck:
        """Tells that the policy's weights change; returns when every agent of the session knows.

        Give `policy_version` when you open the session, so that its first rollouts know theirs.

        Args:
            version: of the new weights.
            phase: pending: about to change. paused: the engines stand still, no rollout begins. live: the new
                weights answer.
            inflight: what rollouts under way do until the version is live. continue: go on. hold: no new
                model call. abort_resume: model calls are aborted, and made again then. drain: they end, no
                other begins, and this call returns when none is left.

        Raises:
            InvalidRequest: an unknown word, or a version older than the one that is live.
        """
        self._check_alive()
        answer = self._controls.update(policy_update(version, phase, inflight))
        self._work.set()
        return await answer

    def _check_open(self) -> None:
        if self._connection is None:
            raise RuntimeError("use the session as `async with client.session(...) as session:`")
        if self._leaving:
            raise error("CANCELLED", "the session has ended: its context was left")

    def _check_alive(self) -> None:
        self._check_open()
        if self._failure is not None or self._ended or self._closing:
            raise self._failure or error("CANCELLED", "the session has ended: there is nothing to steer")

    # ---- feeding: submissions -> outbox

    async def _feed(self, submissions: Submissions) -> None:
        try:
            source = as_async(submissions)
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
        while not self._stopped and not self._ended and (self.draining is None or self.resumable):
            # A daemon that shuts down refuses tasks: those of a resumable session wait for the next one.
            if self.draining is None and not self._outbox.full and self._window.has_room(count):
                return True
            self._room.clear()
            await self._room.wait()
        return False

    def _hand_in(self, submission: TaskSubmission) -> None:
        if submission.task_id in self._to_come:
            self._to_come.remove(submission.task_id)  # handed in once more, it is another one
            return  # its results come by themselves
        size = submission.ByteSize()
        if (refusal := too_large(submission, size, self.opened.max_message_bytes)) is not None:
            self._inbox.append(refusal)
            self._arrived.set()
            return
        self._outbox.add(submission, size)
        self._work.set()

    # ---- the connection

    async def _stay_connected(self) -> None:
        """Reads and writes until the session ends, over as many connections as that takes."""
        try:
            while (broken := await self._use_connection()) is not None:
                await self._reconnect(broken)
        except Exception as problem:
            failure = problem if isinstance(problem, GymdError) else client_bug(problem)
            self._failure = self._failure or failure
            self._controls.fail(failure)
        finally:
            self._ended = True
            self._controls.fail(error("CANCELLED", "the session has ended"))
            self._room.set()
            self._arrived.set()

    async def _use_connection(self) -> GymdError | None:
        """Reads and writes on one connection; returns why it broke if another one may follow."""
        writer = asyncio.create_task(self._write_loop(self._stream))
        try:
            await self._read()
        except GymdError as failure:
            over = self._leaving or self.summary is not None
            if over or not self.resumable or failure.reason_name not in BROKEN:
                raise
            return failure
        finally:
            writer.cancel()
            await asyncio.gather(writer, return_exceptions=True)
        return None

    async def _reconnect(self, why: GymdError) -> None:
        """Dials until the daemon takes the session up again; raises `why` when the window has passed."""
        log.warning("session %s: the stream broke (%s); connecting again", self.session_id, why.message)
        opening = reopening(self._opening, self.opened, self._last_sequence, self._window)
        window = self.opened.resume_window.ToNanoseconds() / 1e9
        try:
            self._stream, self.opened = await dial(self._new_stream, opening, window)
        except GymdError as failure:
            raise (why if failure.reason_name in BROKEN else failure) from None
        self.reconnects += 1
        self.draining = None
        self._outbox.reconnected()
        self._chunks.clear()
        log.warning("session %s goes on after result %d", self.session_id, self._last_sequence)
        self._work.set()
        self._room.set()

    # ---- writing: outbox -> frames

    async def _write_loop(self, stream: Stream) -> None:
        self._work.set()
        while True:
            await self._work.wait()
            self._work.clear()
            while (frame := self._next_frame()) is not None:
                if not self._room.is_set():
                    self._room.set()  # the frame made room in the outbox
                if not await stream.write(frame):
                    return
            self._idle = False
            if self._closing:
                await stream.done_writing()
                return

    def _next_frame(self) -> StreamRolloutsRequest | None:
        answers = self._policy.next_frame() if self._policy is not None else None
        return answers or self._outbox.next_frame(idle=self._idle or self._closing)

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

    async def _read(self) -> None:
        try:
            async for frame in self._stream.frames(self.opened.progress_interval):
                self._take(frame)
        except GymdError:
            if self.summary is None:  # which is the last word: a session that is over cannot be taken up
                raise
        if self.summary is None:
            raise error("PEER_UNREACHABLE", "the daemon ended the stream without a summary")
        # Everything that was handed in and not refused has a result, and all of them must have come.
        if max(self._window.submitted, self.summary.result_count) > self._last_sequence:
            raise ended_early(self.draining)

    def _take(self, frame: StreamRolloutsResponse) -> None:
        kind = frame.WhichOneof("frame")
        if kind == "results":
            for result in frame.results.results:
                self._take_result(result)
        elif kind == "result_chunk":
            if (whole := self._chunks.take(frame.result_chunk)) is not None:
                self._take_result(whole)
        elif kind == "admissions":
            self._take_admissions(frame)
        elif kind == "generate_requests" and self._policy is not None:
            self._policy.take(frame.generate_requests)
        elif kind == "progress":
            if frame.progress.condition not in ("", self.progress.condition):
                log.warning("the daemon is held up: %s", frame.progress.condition)
            self.progress = frame.progress
            self._window.waiting_bytes = frame.progress.waiting_result_bytes
            self._work.set()
        elif kind == "draining":
            self.draining = frame.draining
            self._room.set()
            self._arrived.set()
        elif kind == "summary":
            self.summary = frame.summary
        else:  # if it is none of these, it belongs to a feature that nobody asked for, or to a newer daemon
            self._controls.take(frame)

    def _take_result(self, result: RolloutResult) -> None:
        self._last_sequence += 1
        self._window.waiting_bytes = 0
        if result.sequence != self._last_sequence:
            text = f"result {result.sequence} came where {self._last_sequence} was due"
            raise error("PROTOCOL_VIOLATION", text, sequence=result.sequence, due=self._last_sequence)
        self._inbox.append(result)
        self._arrived.set()

    def _take_admissions(self, frame: StreamRolloutsResponse) -> None:
        for admission in frame.admissions.admissions:
            if (refusal := self._outbox.answer(admission, resumable=self.resumable)) is not None:
                self._inbox.append(Rejection(admission.task_id, refusal))
                self._room.set()
                self._arrived.set()
