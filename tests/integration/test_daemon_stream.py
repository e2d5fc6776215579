"""StreamRollouts over real sockets with real host processes."""

import asyncio
import hashlib
import os
import signal
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import pytest

from gymapi.v1 import rollout_service_pb2 as pb
from gymapi.v1.errors_pb2 import ErrorReason
from gymapi.v1.registry_service_pb2 import RestartServerRequest, ServerState
from gymapi.v1.rollout_pb2 import Outcome, Stage
from gymd.client.chunks import ChunkReader
from gymd.errors import from_rpc_error
from tests.fakes.mesh import RunningMesh, Stream, running, task, toy
from tests.fakes.toy_agent import LARGE_BYTES

COMPLETED, CANCELLED = Outcome.OUTCOME_COMPLETED, Outcome.OUTCOME_CANCELLED


@pytest.fixture
async def mesh(tmp_path: Path) -> AsyncIterator[RunningMesh]:
    async with running(tmp_path, toy(), toy("slow", config={"delay_s": 0.3})) as one:
        yield one


def exactly_once(stream: Stream, count: int) -> None:
    assert [result.sequence for result in stream.results] == list(range(1, count + 1))
    assert len({result.rollout.rollout_id for result in stream.results}) == count


async def test_tasks_and_repeats_come_back_scored(mesh: RunningMesh) -> None:
    stream = await mesh.stream().open(default_agent="toy")
    await stream.submit(task("a", rollout_count=3, group_id="g"), task("b"))
    await stream.until(4)
    await stream.send(ack=pb.AckResults(through_sequence=4))
    summary = await stream.finish()
    assert (summary.accepted_task_count, summary.result_count) == (2, 4)
    exactly_once(stream, 4)
    assert {result.rollout.reward.value for result in stream.results} == {1.0}
    assert {result.rollout.group_id for result in stream.results} == {"g", ""}
    assert "group_completed" in stream.seen
    assert await mesh.metric("rollouts_total") == 4
    assert await mesh.metric("sessions_open") == 0


async def test_thousands_of_tasks_through_a_small_credit(mesh: RunningMesh) -> None:
    total, window = 10_000, 16
    stream = await mesh.stream().open(window, default_agent="toy")
    sent = 0

    async def top_up() -> None:
        nonlocal sent
        fresh = min(len(stream.results) + window, total) - sent
        if fresh:
            await stream.send(grant=pb.GrantCredits(granted_rollouts=len(stream.results) + window))
            await stream.submit(*(task(str(sent + offset)) for offset in range(fresh)))
            sent += fresh

    await top_up()
    while len(stream.results) < total:
        await stream.expect("results")
        await top_up()
    summary = await stream.finish()
    assert (summary.result_count, summary.rejected_task_count) == (total, 0)
    exactly_once(stream, total)


async def test_a_killed_host_costs_attempts_but_no_rollout(tmp_path: Path) -> None:
    async with running(tmp_path, toy(config={"delay_s": 0.5}), pool_hosts=2) as mesh:
        stream = await mesh.stream().open()
        await stream.submit(*(task(str(number)) for number in range(200)))
        await stream.expect("admissions")
        await mesh.until_metric("rollouts_running", 200)
        victim, other = await mesh.servers("toy")
        os.kill(victim.pid, signal.SIGKILL)
        rollouts = await stream.until(200)
        summary = await stream.finish()
        exactly_once(stream, 200)
        assert Counter(rollout.outcome for rollout in rollouts) == {COMPLETED: 200}
        attempts = Counter(rollout.attempt for rollout in rollouts)
        assert attempts[1] == 100, "what ran on the other host was not disturbed"
        assert summary.retried_count == 100
        assert all(
            rollout.reward.extras_json != str(victim.pid) for rollout in rollouts if rollout.attempt > 1
        )
        servers = await mesh.until(
            lambda all_: len(all_) == 2 and all(s.state == ServerState.SERVER_STATE_READY for s in all_)
        )
        assert sorted(server.restart_count for server in servers) == [0, 1]
        assert other.pid in {server.pid for server in servers}


async def test_the_only_host_crashes_and_comes_back(mesh: RunningMesh) -> None:
    stream = await mesh.stream().open(default_agent="slow", infra_retry_limit=3)
    await stream.submit(*(task(str(number)) for number in range(50)))
    await stream.expect("admissions")
    (server,) = await mesh.servers("slow")
    os.kill(server.pid, signal.SIGKILL)
    rollouts = await stream.until(50)
    assert {rollout.outcome for rollout in rollouts} == {COMPLETED}
    await stream.finish()


async def test_a_restart_lets_running_rollouts_finish(mesh: RunningMesh) -> None:
    stream = await mesh.stream().open(default_agent="slow")
    await stream.submit(*(task(str(number), "tell") for number in range(50)))
    await mesh.logged("slow", "begun 49/0")
    await mesh.registry.RestartServer(RestartServerRequest(name="slow"), timeout=30)
    await mesh.until(lambda servers: {s.state for s in servers} == {ServerState.SERVER_STATE_STARTING})
    await stream.submit(*(task(str(number)) for number in range(50, 100)))
    rollouts = await stream.until(100)
    assert Counter((rollout.outcome, rollout.attempt) for rollout in rollouts) == {(COMPLETED, 1): 100}
    assert len({rollout.reward.extras_json for rollout in rollouts}) == 2, "two processes answered"
    await stream.finish()


async def test_cancel_reaches_the_agent(mesh: RunningMesh) -> None:
    stream = await mesh.stream().open(default_agent="toy")
    await stream.submit(task("stuck", "hang"), task("fine"))
    await stream.until(1)
    await mesh.logged("toy", "hanging stuck/0")
    await stream.send(cancel=pb.CancelWork(task_id="stuck", reason="enough"))
    assert (await stream.expect("cancelled")).cancelled_count == 1
    *_, stuck = await stream.until(2)
    assert (stuck.outcome, stuck.HasField("reward")) == (CANCELLED, False)
    assert await mesh.logged("toy", "cancelled stuck/0")
    await stream.finish()


async def test_a_client_that_goes_away_takes_its_work_along(mesh: RunningMesh) -> None:
    stream = await mesh.stream().open(default_agent="toy")
    await stream.submit(task("stuck", "hang", rollout_count=5))
    await mesh.logged("toy", "hanging stuck/4")
    stream.call.cancel()
    assert await mesh.logged("toy", "cancelled stuck/4")
    await mesh.until_metric("sessions_open", 0)
    assert await mesh.metric("rollouts_running") == 0


async def test_a_deadline_is_an_outcome(mesh: RunningMesh) -> None:
    stream = await mesh.stream().open(default_agent="toy")
    hung = task("hung", "hang")
    hung.deadlines.rollout.FromMilliseconds(200)
    await stream.submit(hung)
    (rollout,) = await stream.until(1)
    assert rollout.outcome == Outcome.OUTCOME_TIMED_OUT
    assert rollout.failure.status.reason == ErrorReason.ERROR_REASON_DEADLINE_EXCEEDED
    await stream.finish()


async def test_a_host_that_dies_on_every_attempt_is_told(mesh: RunningMesh) -> None:
    stream = await mesh.stream().open(default_agent="toy", infra_retry_limit=1)
    await stream.submit(task("poison", "exit"))
    (rollout,) = await stream.until(1)
    assert (rollout.outcome, rollout.attempt) == (Outcome.OUTCOME_ENV_FAILED, 2)
    assert rollout.failure.stage == Stage.STAGE_TRANSPORT
    assert len(rollout.failure.attempts) == 1
    await stream.finish()


async def test_large_data_comes_in_chunks_with_checksums(mesh: RunningMesh) -> None:
    stream = await mesh.stream().open(default_agent="toy", max_message_bytes=1 << 20, accepts_chunks=True)
    await stream.submit(task("a", "large"), task("b"))
    reader, count, whole = ChunkReader(), 0, None
    while whole is None:
        whole = reader.take(await stream.expect("result_chunk"))
        count += 1
    assert count >= LARGE_BYTES >> 20
    [blob] = whole.rollout.blobs
    assert (whole.rollout.rollout_id, blob.name, len(blob.data)) == ("a/0", "pixels", LARGE_BYTES)
    assert hashlib.sha256(blob.data).hexdigest() == blob.sha256
    assert (await stream.finish()).result_count == 2
    assert [result.rollout.rollout_id for result in stream.results] == ["b/0"]


@pytest.mark.parametrize("durability", [True, False])
async def test_the_journal_is_where_the_configuration_says(tmp_path: Path, durability: bool) -> None:
    folder = tmp_path / "elsewhere"
    settings = {"journal_dir": folder, "journal_retention_s": 60, "durability": durability}
    async with running(tmp_path / "state", toy(), **settings) as mesh:
        stream = mesh.stream()
        opening = pb.OpenSession(granted_rollouts=1)
        opening.resume_window.seconds = 3600
        await stream.send(open=opening)
        opened = await stream.expect("opened")
        assert (opened.resume_window.seconds, opened.durable) == (60, durability)
        await stream.submit(task("a"))
        await stream.until(1)
        await stream.finish()
    assert (folder / "journal.db").exists() == durability
    assert not (tmp_path / "state" / "journal").exists()


async def test_a_consumer_that_reads_nothing_stalls_only_itself(mesh: RunningMesh) -> None:
    lazy = await mesh.stream().open(500, default_agent="toy")
    await lazy.submit(*(task(str(number), "x" * 10_000) for number in range(500)))
    busy = await mesh.stream().open(default_agent="toy")
    await busy.submit(*(task(str(number)) for number in range(300)))
    await busy.until(300)
    await busy.finish()
    await lazy.until(500)
    exactly_once(lazy, 500)
    await lazy.finish()


class TestProtocol:
    async def ended(self, stream: Stream) -> tuple[str, dict[str, str]]:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stream.expect("summary")
        failure = from_rpc_error(caught.value)
        return failure.reason_name, failure.metadata

    async def test_open_comes_first(self, mesh: RunningMesh) -> None:
        stream = mesh.stream()
        await stream.submit(task("a"))
        assert (await self.ended(stream))[0] == "PROTOCOL_VIOLATION"

    async def test_a_frame_that_makes_no_sense_ends_the_stream(self, mesh: RunningMesh) -> None:
        stream = await mesh.stream().open()
        await stream.send(policy_update=pb.PolicyUpdate(version=1))
        assert await self.ended(stream) == ("INVALID_REQUEST", {"field": "policy_update.phase"})

    async def test_rejections_travel_with_their_values(self, mesh: RunningMesh) -> None:
        stream = await mesh.stream().open(1)
        unknown = task("a")
        unknown.task.agent = "toi"
        await stream.submit(unknown, task("b"))
        first, second = (await stream.expect("admissions")).admissions
        assert first.rejection.reason == ErrorReason.ERROR_REASON_SERVER_NOT_FOUND
        assert "did you mean 'toy'" in first.rejection.message
        assert second.rejection.reason == ErrorReason.ERROR_REASON_INVALID_REQUEST, "there are two agents"
        await stream.finish()

    async def test_sessions_are_listed(self, mesh: RunningMesh) -> None:
        stream = await mesh.stream().open(7)
        (info,) = (await mesh.rollouts.ListSessions(pb.ListSessionsRequest(), timeout=30)).sessions
        assert (info.client_name, info.granted_rollouts) == ("test", 7)
        await stream.finish()

    async def test_progress_when_nothing_happens(self, mesh: RunningMesh) -> None:
        opening = pb.OpenSession(granted_rollouts=1, default_agent="toy")
        opening.progress_interval.seconds = 1
        stream = mesh.stream()
        await stream.send(open=opening)
        await stream.submit(task("stuck", "hang"))
        progress = await stream.expect("progress")
        assert (progress.running_count, progress.queued_count) == (1, 0)
        await stream.send(cancel=pb.CancelWork(all=True))
        await stream.until(1)
        await stream.finish()


class TestShutdown:
    async def test_work_within_the_grace_is_finished(self, tmp_path: Path) -> None:
        async with running(tmp_path, toy(config={"delay_s": 0.4})) as mesh:
            stream = await mesh.stream().open()
            await stream.submit(*(task(str(number)) for number in range(20)))
            await stream.expect("admissions")
            stopping = asyncio.ensure_future(mesh.daemon.stop("maintenance"))
            draining = await stream.expect("draining")
            assert (draining.time_left.seconds, draining.reason) == (5, "maintenance")
            await stream.submit(task("late"))
            (late,) = (await stream.expect("admissions")).admissions
            assert late.rejection.reason == ErrorReason.ERROR_REASON_DRAINING
            summary = await stream.expect("summary")
            assert summary.result_count == 20
            assert {result.rollout.outcome for result in stream.results} == {COMPLETED}
            await stopping

    async def test_what_takes_longer_is_cancelled(self, tmp_path: Path) -> None:
        async with running(tmp_path, toy(), grace_s=0.2) as mesh:
            stream = await mesh.stream().open()
            await stream.submit(task("stuck", "hang", rollout_count=3))
            await stream.expect("admissions")
            stopping = asyncio.ensure_future(mesh.daemon.stop("maintenance"))
            await stream.expect("summary")
            assert {result.rollout.outcome for result in stream.results} == {CANCELLED}
            assert len(stream.results) == 3
            await stopping

    async def test_no_new_sessions(self, tmp_path: Path) -> None:
        async with running(tmp_path, toy()) as mesh:
            stream = await mesh.stream().open()
            await stream.submit(task("stuck", "hang"))
            await stream.expect("admissions")
            stopping = asyncio.ensure_future(mesh.daemon.stop("maintenance"))
            await stream.expect("draining")
            late = mesh.stream()
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await late.read()
            assert from_rpc_error(caught.value).reason_name == "DRAINING"
            mesh.daemon.hurry()
            await stopping
            stream.call.cancel()
