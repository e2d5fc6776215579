"""A trainer in a few lines: its policy answers the model calls, groups of scored rollouts come back.

async with Trainer("127.0.0.1:50161", policy=my_generate) as gym:
    async for group in gym.groups(tasks, n=8):
        ...

With `resume_file="run.gymd"` the same program goes on where it was killed. A group is done with when the next
one is asked for, so its results are acknowledged only then; a trainer that learns from several groups at a
time says `auto_commit=False` and calls `commit` after each step.
"""

from __future__ import annotations

import asyncio
import logging
import zlib
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Callable,
    Iterable,
    Mapping,
)
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, suppress
from os import PathLike
from types import TracebackType
from typing import Any, Self, cast
from uuid import uuid4

from gymapi.v1.agent_service_pb2 import Deadlines
from gymapi.v1.rollout_pb2 import Task
from gymapi.v1.rollout_service_pb2 import PolicyUpdateAck, RolloutResult, TaskSubmission
from gymd.client.client import DEFAULT_CREDITS, RESUME_WINDOW_S, RolloutClient
from gymd.client.controls import InflightWord, PhaseWord
from gymd.client.groups import Group, GroupStream, Iteration, Pass, TaskSource, task_of
from gymd.client.policy import BatchPolicyFunction, PolicyFunction, PolicyRunner
from gymd.client.resume import ResumeFile, place
from gymd.client.rows import RowError
from gymd.client.session import RolloutSession
from gymd.client.sources import Rejection, as_async
from gymd.errors import GymdError, InvalidRequest, NotFound, OutOfRange, error
from gymd.memory import keep_large_blocks

__all__ = ["Trainer"]

log = logging.getLogger(__name__)

_CANCEL_S = 3.0
"""How long it waits for the daemon to stop its rollouts."""
_BREATH = 256
"""After so many tasks others on the event loop get their turn."""


class Trainer:
    """A session of the rollout stream that may serve the policy too; use it as an async context manager.

    Args:
        address: `host:port` or `unix:/path` of the daemon.
        policy: answers a model call; see gymd.client.policy. None: the daemon's configuration names a model.
        policy_batch: answers a list of model calls, in place of `policy`.
        max_batch: longest list.
        threads: how many calls a plain (not async) `policy` answers at a time.
        policy_version: version of the policy, noted with every rollout and token; see `update_policy`. In a
            session it only grows: a trainer that goes on with older weights numbers them anew.
        credits: most rollouts under way or waiting to be read.
        default_agent: runs tasks that name none; "" leaves it to the daemon.
        deadlines: limits of the parts of a rollout; see gymd.client.deadlines.
        return_tokens: ask for token ids and logprobs.
        infra_retry_limit: tries again after infrastructure failures; None leaves it to the daemon.
        resume_window: seconds that the daemon keeps the session without a connection. The client connects
            again by itself; model calls wait meanwhile.
        on_rejected: takes tasks that the daemon refused, and why; the trainer is done with them as with a
            group that it got. None: the first one is raised.
        resume_file: where the trainer notes which groups it is done with. A trainer that was killed, or left
            by an exception, goes on in a new process: run the same program with the same file. Every group
            that it was not done with comes whole, the others do not come again. After more than resume_window
            what was not done with runs anew. The file is removed when the trainer is left in order. None:
            nothing is noted, and leaving the trainer ends its work.
        auto_commit: with a resume_file, a group is done with when the next one is asked for. False: when
            `commit` is called, for trainers that learn from several groups at a time.
        client_name, run_id: for the daemon's logs.
        wait_for_daemon: seconds to wait for a daemon that is not there yet; 0: it must be there.
    """

    def __init__(
        self,
        address: str,
        policy: PolicyFunction | None = None,
        *,
        policy_batch: BatchPolicyFunction | None = None,
        max_batch: int = 64,
        threads: int = 1,
        policy_version: int | None = None,
        credits: int = DEFAULT_CREDITS,
        default_agent: str = "",
        deadlines: Deadlines | None = None,
        return_tokens: bool = True,
        infra_retry_limit: int | None = None,
        resume_window: float = RESUME_WINDOW_S,
        on_rejected: Callable[[TaskSource, GymdError], None] | None = None,
        resume_file: str | PathLike[str] | None = None,
        auto_commit: bool = True,
        client_name: str = "trainer",
        run_id: str = "",
        wait_for_daemon: float = 0.0,
    ) -> None:
        self.policy_version = policy_version
        """Version of the policy that answers now; changed by `update_policy`."""
        self._runner: PolicyRunner | None = None
        if policy is not None or policy_batch is not None:
            self._runner = PolicyRunner(
                policy,
                policy_batch,
                max_batch=max_batch,
                threads=threads,
                version=lambda: self.policy_version,
            )
        self._client = RolloutClient(address, client_name=client_name, wait_for_daemon=wait_for_daemon)
        self._credits = credits
        self._on_rejected = on_rejected
        self._options: dict[str, Any] = {
            "credits": credits,
            "default_agent": default_agent,
            "deadlines": deadlines,
            "return_tokens": return_tokens,
            "infra_retry_limit": infra_retry_limit,
            "resume_window": resume_window,
            "policy_version": policy_version,
            "run_id": run_id,
        }
        if resume_file is not None and resume_window <= 0:
            raise ValueError("resume_file needs a resume_window above 0")
        # Task ids that no other trainer of the daemon has: model calls find their trainer by them.
        self._prefix = uuid4().hex[:16]
        self._names: set[str] = set()  # of iterations
        self._active: Iteration | None = None
        self._stack = AsyncExitStack()
        self._entered = False
        self._session: RolloutSession | None = None
        self._resume = ResumeFile(resume_file) if resume_file is not None else None
        self._auto_commit = auto_commit
        self._yielded: list[str] = []  # groups that the caller got and is not done with
        self._last_pass: Pass | None = None

    async def __aenter__(self) -> Self:
        if self._entered:
            raise RuntimeError("a trainer is entered once: make another one")
        self._entered = True
        async with AsyncExitStack() as stack:
            if self._runner is not None:
                stack.push_async_callback(self._runner.stop)
            await stack.enter_async_context(self._client)
            session = self._session = await self._open(stack)
            if self._runner is not None and "trainer_policy" not in session.opened.features:
                text = f"the daemon at {self._client.address} is too old to ask a trainer's policy; update it"
                raise error("NOT_IMPLEMENTED", text, feature="trainer_policy")
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        kept = self._resume is not None and kind is not None
        if kept:
            self.session.detach()
        elif self._resume is not None:
            self._resume.over = True
            self._yielded.clear()
        try:
            if self._active is not None:
                await self._active.aclose()
        finally:
            await self._stack.aclose()

    async def _open(self, stack: AsyncExitStack) -> RolloutSession:
        """A new session, or the one of the process before."""
        resume = self._resume
        if resume is not None:
            stack.callback(resume.close)
            resume.open()
            self._prefix = resume.prefix or self._prefix
            if resume.session_id:
                try:
                    return await self._enter_resumed(resume, stack)
                except NotFound as gone:
                    log.warning("what was under way runs anew in another session: %s", gone.message)
        session = self._client.session(**self._options, policy=self._runner)
        opened = await stack.enter_async_context(session)
        if resume is not None:
            resume.begin(opened.session_id, self._prefix)
            opened.hold_acks(0)
        return opened

    async def _enter_resumed(self, resume: ResumeFile, stack: AsyncExitStack) -> RolloutSession:
        try:
            return await stack.enter_async_context(self._resumed(resume))
        except OutOfRange as ahead:
            # The end of the file went with a machine that crashed: the daemon knows what it had acknowledged.
            log.warning("groups that are not noted in %s any more run anew: %s", resume.path, ahead.message)
            resume.skip_to(int(ahead.metadata["earliest_sequence"]) - 1)
            return await stack.enter_async_context(self._resumed(resume))

    @asynccontextmanager
    async def _resumed(self, resume: ResumeFile) -> AsyncIterator[RolloutSession]:
        if self._options["return_tokens"]:
            keep_large_blocks()
        session = self._client.resume(
            resume.session_id,
            last_sequence=resume.through,
            credits=self._credits,
            policy_version=self.policy_version,
            policy=self._runner,
        )
        async with session:
            session.hold_acks(resume.through)
            try:
                resume.adopt(session.inherited)
                self._check_version(session.opened.policy_version)
            except BaseException:
                session.detach()  # a mistake of this program must not cost what is under way
                raise
            yield session

    def _check_version(self, live: int) -> None:
        if self.policy_version is not None and self.policy_version < live:
            text = (
                f"the session goes on, and version {live} of the policy is live in it: policy_version "
                f"{self.policy_version} is older, and versions only grow. Begin with {live} or above, "
                "whatever the weights are"
            )
            raise error("INVALID_REQUEST", text, field="policy_version", live=live)

    @property
    def session(self) -> RolloutSession:
        """The session below, for what is not repeated here: progress, cancel, summary.

        Raises:
            RuntimeError: the trainer was not entered.
        """
        if self._session is None:
            raise RuntimeError("use the trainer as `async with Trainer(...) as gym:`")
        return self._session

    async def update_policy(
        self, version: int, phase: PhaseWord = "live", *, inflight: InflightWord = "continue"
    ) -> PolicyUpdateAck:
        """Tells that the policy's weights change; as RolloutSession.update_policy."""
        session, before = self.session, self.policy_version
        if phase == "live":
            self.policy_version = version  # before the daemon knows: calls that begin now are answered by it
        try:
            return await session.update_policy(version, phase, inflight=inflight)
        except InvalidRequest:
            self.policy_version = before
            raise

    def commit(self) -> None:
        """Notes in the resume_file that the caller is done with every group that it got so far."""
        if self._resume is not None and self._yielded:
            self._resume.finish(self._yielded)
            self._yielded.clear()
            self.session.hold_acks(self._resume.through)

    def groups(
        self,
        tasks: Iterable[TaskSource] | AsyncIterable[TaskSource],
        n: int = 8,
        *,
        in_flight: int | None = None,
        name: str = "",
    ) -> GroupStream:
        """Runs each task `n` times and yields its rollouts together, in the order in which groups complete.

        Tasks are pulled one by one, when there is room; a plain iterable must not block. What completes a
        group is acknowledged when the caller asks for the next one. Leaving the loop early cancels what is
        under way (with a resume_file: when the next iteration begins, or the trainer is left in order). One
        iteration at a time: a new one ends the last, as soon as a group of it is asked for; asked again, the
        last one raises Cancelled if groups of it had not come.

        Args:
            tasks: any number of them. A trainer that goes on by its resume_file hands in the same ones, in
                the same order: those that are done are passed over.
            n: rollouts of each.
            in_flight: most groups under way, at least 1; None: as many as the credits allow.
            name: of the iteration, for a resume_file; "": how many there were before. Give one if a new
                process does not begin with the first, such as the number of the step.

        Raises (while iterating):
            RowError: a task is no dataset row.
            GymdError: the stream failed, or a task was refused and there is no `on_rejected`.
            Exception: whatever the policy raised, unless it was a GymdError: that one only fails its rollout.
        """
        if isinstance(tasks, Task | Mapping | str):
            raise TypeError("tasks is one task: give a list of them")
        if n < 1:
            raise ValueError(f"n must be at least 1, not {n}")
        if in_flight is not None and in_flight < 1:
            raise ValueError(f"in_flight must be at least 1, not {in_flight}")
        limit = in_flight if in_flight is not None else max(1, self._credits // n)
        name = name or str(len(self._names))
        if name in self._names:
            raise ValueError(f"there was an iteration {name} before; give each a name of its own")
        self._names.add(name)
        groups = self._groups(tasks, n, limit, name)
        return GroupStream(Iteration(groups, self._begin))

    async def _begin(self, iteration: Iteration) -> None:
        """Ends the iteration before."""
        previous, self._active = self._active, iteration
        last, self._last_pass = self._last_pass, None
        if previous is not None:
            await (previous.aclose() if last is None or last.over else previous.give_way())
        if self._resume is None or last is None or last.over:
            return
        if self._auto_commit:
            self.commit()
        self._resume.leave(last.name, last.pending)
        self.session.hold_acks(self._resume.through)
        await self._stop(last.pending)

    async def _groups(
        self,
        tasks: Iterable[TaskSource] | AsyncIterable[TaskSource],
        n: int,
        limit: int,
        name: str,
    ) -> AsyncGenerator[Group, None]:
        source = self._numbered(tasks, n, name)
        this = self._last_pass = Pass(name, n, source)
        completed = self._completed(this, limit)
        try:
            async with aclosing(source), aclosing(completed):
                async for group in completed:
                    if self._resume is not None:
                        self._yielded.append(group.rollouts[0].task_id)
                    yield group
                    if self._auto_commit:
                        self.commit()
        finally:
            if self._resume is None:
                await self._stop(this.pending)

    async def _numbered(
        self, tasks: Iterable[TaskSource] | AsyncIterable[TaskSource], n: int, name: str
    ) -> AsyncGenerator[tuple[str, Group], None]:
        """The tasks and their ids. Another process finds the same ids for the same tasks."""
        number = 0
        async for source in as_async(tasks):
            try:
                group = Group(source, task_of(source), number)
            except (RowError, TypeError) as problem:
                raise RowError(f"task {number} of groups(): {problem}") from None
            task_id = f"{self._prefix}-{name}-{number}"
            if self._resume is not None:
                task_id += f"-{zlib.crc32(group.task.SerializeToString(deterministic=True), n):08x}"
            yield task_id, group
            number += 1
            if number % _BREATH == 0:
                await asyncio.sleep(0)  # tasks that are passed over come one after the other, maybe millions

    async def _completed(self, this: Pass, limit: int) -> AsyncGenerator[Group, None]:
        for complete in await self._claim(this):
            yield complete
        if this.over:
            return
        room = asyncio.Event()

        async def submissions() -> AsyncIterator[TaskSubmission]:
            while (found := this.next.popleft() if this.next else await self._unfinished(this)) is not None:
                while len(this.pending) >= limit:
                    room.clear()
                    await room.wait()
                task_id, group = found
                this.pending[task_id] = group
                yield TaskSubmission(task_id=task_id, group_id=task_id, task=group.task, rollout_count=this.n)

        run = cast(
            AsyncGenerator[RolloutResult | Rejection, None], self.session.run(submissions(), final=False)
        )
        async with aclosing(run):
            async for item in run:
                group = self._take(item, this)
                room.set()
                if group is not None:
                    yield group
                if this.over:
                    return  # what else is under way belongs to other iterations

    async def _claim(self, this: Pass) -> list[Group]:
        """Takes over what an earlier process handed in; returns the groups that are complete already."""
        resume, complete = self._resume, []
        if resume is None:
            return []
        missing = resume.unclaimed(f"{self._prefix}-{this.name}-")
        while missing and (found := await this.pull()) is not None:
            task_id, group = found
            if place(task_id) in missing:
                missing.remove(place(task_id))
                this.pending[task_id] = group
                complete += [one for rollout in resume.claim(task_id) if (one := this.add(rollout))]
            elif not resume.is_done(task_id):
                this.next.append(found)
        if missing:
            raise resume.other_tasks(missing.pop())
        if resume.was_left(this.name):
            this.next.clear()
            this.exhausted = True
        elif not (this.pending or this.next) and (first := await self._unfinished(this)) is not None:
            this.next.append(first)
        if this.next and (others := resume.waiting):
            text = "the daemon keeps all results: %d tasks of an earlier process wait for their iteration"
            log.warning(text, others)
        return complete

    async def _unfinished(self, this: Pass) -> tuple[str, Group] | None:
        """The next task of the source that the caller is not done with."""
        while not this.exhausted and (found := await this.pull()) is not None:
            if self._resume is None or not self._resume.is_done(found[0]):
                return found
        return None

    def _take(self, item: RolloutResult | Rejection, this: Pass) -> Group | None:
        """The group that an item completes. Late items of an iteration that was left are ignored."""
        if isinstance(item, Rejection):
            refused = this.pending.pop(item.task_id, None)
            if refused is None:
                return None
            if self._on_rejected is None:
                raise item.error
            self._on_rejected(refused.source, item.error)
            if self._resume is not None:
                self._yielded.append(item.task_id)
            return None
        if self._resume is not None:
            self._resume.saw(item)
        self._raise_bug()  # before its group is complete: it stays among what this iteration has under way
        return this.add(item.rollout) if item.rollout.task_id in this.pending else None

    def _raise_bug(self) -> None:
        if self._runner is not None and self._runner.bug is not None:
            bug, self._runner.bug = self._runner.bug, None
            raise bug

    async def _stop(self, pending: Mapping[str, Group]) -> None:
        if not pending:
            return
        with suppress(GymdError, TimeoutError):  # a session that has failed runs nothing
            async with asyncio.timeout(_CANCEL_S):
                await self.session.cancel(everything=True, reason="the trainer left the iteration")
