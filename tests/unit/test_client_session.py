"""The client against a daemon on a real socket that plays by script."""

import asyncio
import gc
from collections.abc import AsyncIterator, Iterator

import pytest

from gymapi.v1.rollout_pb2 import OUTCOME_CANCELLED, OUTCOME_COMPLETED, Task
from gymapi.v1.rollout_service_pb2 import RolloutResult, TaskSubmission
from gymd.client import Rejection, RolloutClient, deadlines
from gymd.errors import Cancelled, GymdError, InvalidRequest, NotFound, Unavailable, Unimplemented, error
from tests.fakes.daemon import FakeDaemon, rollout, server


def tasks(count: int, **fields: object) -> Iterator[TaskSubmission]:
    for number in range(count):
        yield TaskSubmission(task_id=f"t{number}", task=Task(fields_json="{}"), **fields)


async def gather(stream: AsyncIterator[object], results: list[object]) -> None:
    async for result in stream:
        results.append(result)


@pytest.fixture
async def daemon() -> AsyncIterator[FakeDaemon]:
    async with FakeDaemon() as one:
        yield one


@pytest.fixture
async def client(daemon: FakeDaemon) -> AsyncIterator[RolloutClient]:
    async with RolloutClient(daemon.address, client_name="test") as one:
        yield one


async def test_every_task_comes_back_once_and_in_order(daemon: FakeDaemon, client: RolloutClient) -> None:
    async with client.session(credits=16, default_agent="a", return_tokens=True) as session:
        results = [result async for result in session.run(tasks(1000))]
        assert session.summary is not None
        assert session.summary.result_count == 1000
    assert [result.sequence for result in results] == list(range(1, 1001))
    assert {result.rollout.task_id for result in results} == {f"t{number}" for number in range(1000)}
    seen = daemon.sessions[0]
    assert seen.opening.client_name == "test"
    assert seen.opening.default_agent == "a"
    assert seen.opening.return_tokens
    assert not seen.opening.HasField("infra_retry_limit")
    assert seen.acked == 1000
    assert seen.half_closed


async def test_frames_hold_many_tasks_and_acks_many_results(
    daemon: FakeDaemon, client: RolloutClient
) -> None:
    async with client.session(credits=512) as session:
        async for _ in session.run(tasks(4000)):
            pass
    seen = daemon.sessions[0]
    assert max(seen.tasks_per_frame) <= 64
    assert len(seen.tasks_per_frame) <= 4000 / 8
    assert seen.frames.count("ack") <= 4000 / 16


async def test_frames_stay_near_a_megabyte(daemon: FakeDaemon, client: RolloutClient) -> None:
    big = [TaskSubmission(task_id=str(n), task=Task(fields_json="x" * 400_000)) for n in range(10)]
    async with client.session(credits=64) as session:
        assert len([result async for result in session.run(big)]) == 10
    assert max(daemon.sessions[0].tasks_per_frame) <= 2


async def test_async_sources_and_several_rollouts_of_a_task(client: RolloutClient) -> None:
    async def source() -> AsyncIterator[TaskSubmission]:
        for submission in tasks(5, rollout_count=8, first_index=2):
            yield submission

    async with client.session(credits=3) as session:  # fewer credits than one task needs
        results = [result async for result in session.run(source())]
    assert len(results) == 40
    assert {result.rollout.index for result in results} == set(range(2, 10))


async def test_a_slow_consumer_stops_the_flow(daemon: FakeDaemon, client: RolloutClient) -> None:
    pulled = 0

    def source() -> Iterator[TaskSubmission]:
        nonlocal pulled
        for submission in tasks(10_000):
            pulled += 1
            yield submission

    async with client.session(credits=8) as session:
        stream = session.run(source())
        await anext(stream)
        await daemon.until(lambda: daemon.sessions[0].delivered == 8)
        # Nothing was consumed but the first, so nothing more may move however long we wait: two round trips.
        await client.metrics()
        await client.metrics()
        assert pulled <= 9
        assert daemon.sessions[0].submitted <= 9
        rest = [result async for result in stream]
    assert len(rest) == 9_999


async def test_a_large_stream_needs_flat_memory(client: RolloutClient) -> None:
    """20,000 here, 1,000,000 in the bench; what is alive must not grow with the number."""

    def living() -> int:
        return sum(isinstance(thing, TaskSubmission) for thing in gc.get_objects())

    gc.collect()  # what earlier tests left
    before = living()
    alive = []
    count = 0
    async with client.session(credits=32) as session:
        async for _ in session.run(tasks(20_000)):
            count += 1
            if count % 5_000 == 0:
                alive.append(living() - before)
                assert len(session._inbox) <= 32
                assert len(session._outbox._sent) <= 32
    assert count == 20_000
    assert max(alive) <= 64


async def test_refused_tasks_are_data_and_cost_nothing(daemon: FakeDaemon, client: RolloutClient) -> None:
    daemon.reject = lambda one: (
        error("SERVER_NOT_FOUND", "no such agent", server="x") if one.task_id.endswith("7") else None
    )
    async with client.session(credits=4) as session:
        results = [result async for result in session.run(tasks(100))]
        assert session.summary is not None
        assert session.summary.rejected_task_count == 10
    refused = [result for result in results if isinstance(result, Rejection)]
    assert [one.task_id for one in refused] == [f"t{n}7" if n else "t7" for n in range(10)]
    assert refused[0].error.reason_name == "SERVER_NOT_FOUND"
    assert len(results) == 100


async def test_a_task_larger_than_a_message_is_refused_by_the_client(
    daemon: FakeDaemon, client: RolloutClient
) -> None:
    daemon.max_message_bytes = 1000
    source = [TaskSubmission(task_id="big", task=Task(fields_json="x" * 2000)), *tasks(2)]
    async with client.session(credits=4) as session:
        results = [result async for result in session.run(source)]
    assert [one.error.reason_name for one in results if isinstance(one, Rejection)] == ["MESSAGE_TOO_LARGE"]
    assert len(results) == 3


async def test_cancel_reaches_exactly_what_it_names(daemon: FakeDaemon, client: RolloutClient) -> None:
    daemon.answer = lambda submission, index: None
    daemon.features = ["cancel_scopes"]
    source = [
        TaskSubmission(task_id="one", task=Task(agent="a"), rollout_count=2),
        TaskSubmission(task_id="two", group_id="g", task=Task(agent="a")),
        TaskSubmission(task_id="three", task=Task(agent="b")),
        TaskSubmission(task_id="four", task=Task(agent="a")),
    ]
    async with client.session(credits=8) as session:
        stream = session.run(source)
        first = asyncio.ensure_future(anext(stream))
        await daemon.until(lambda: bool(daemon.sessions) and daemon.sessions[0].submitted == 5)
        assert await session.cancel(rollout_id="one/1", reason="test") == 1
        assert (await first).rollout.rollout_id == "one/1"
        assert await session.cancel(task_id="one") == 1
        assert await session.cancel(group_id="g") == 1
        assert await session.cancel(agent="b") == 1
        with pytest.raises(GymdError, match="exactly one"):
            await session.cancel()
        assert await session.cancel(everything=True) == 1
        rest = [result async for result in stream]
    assert [one.rollout.rollout_id for one in rest] == ["one/0", "two/0", "three/0", "four/0"]
    assert {one.rollout.outcome for one in rest} == {OUTCOME_CANCELLED}
    assert daemon.sessions[0].cancels[0].reason == "test"
    with pytest.raises(GymdError, match="ended"):
        await session.cancel(everything=True)


async def test_a_daemon_that_cannot_say_what_a_cancel_covers_or_does_not_know_the_scope(
    daemon: FakeDaemon, client: RolloutClient
) -> None:
    async with client.session(credits=8) as session:
        for scope in ({"rollout_id": "a/0"}, {"environment": "sums"}):
            with pytest.raises(Unimplemented, match="too old"):
                await session.cancel(**scope)  # type: ignore[arg-type]
    daemon.features = ["cancel_scopes"]
    async with client.session(credits=8) as session:
        running = asyncio.ensure_future(anext(session.run([], final=False), None))
        with pytest.raises(NotFound, match="environment 'sums'"):
            await session.cancel(environment="sums")
        assert await session.cancel(everything=True) == 0
        running.cancel()


async def test_stop_takes_no_more_tasks(daemon: FakeDaemon, client: RolloutClient) -> None:
    count = 0
    async with client.session(credits=4) as session:
        async for _ in session.run(tasks(10_000)):
            count += 1
            if count == 10:
                session.stop()
        assert session.summary is not None
    assert 10 <= count <= 20


async def test_draining_ends_the_run_with_an_error_after_the_results(
    daemon: FakeDaemon, client: RolloutClient
) -> None:
    daemon.drain_after = 20
    results: list[object] = []
    async with client.session(credits=4) as session:
        with pytest.raises(Unavailable, match="shutting down") as caught:
            await gather(session.run(tasks(1000)), results)
        assert session.draining is not None
        assert session.summary is not None
    assert caught.value.reason_name == "DRAINING"
    done = [one for one in results if isinstance(one, RolloutResult)]
    assert len(done) >= 20
    assert {one.error.reason_name for one in results if isinstance(one, Rejection)} <= {"DRAINING"}


async def test_a_daemon_that_leaves_while_the_client_writes_loses_nothing(
    daemon: FakeDaemon, client: RolloutClient
) -> None:
    """The end of the stream and the client's acks cross on the wire."""
    daemon.leaves_at_once = True
    for limit in range(1, 40):
        daemon.drain_after = limit
        results: list[object] = []
        async with client.session(credits=4) as session:
            with pytest.raises(Unavailable, match="shutting down"):
                await gather(session.run(tasks(1000)), results)
            assert session.summary is not None
        done = [one for one in results if isinstance(one, RolloutResult)]
        assert len(done) == daemon.sessions[-1].delivered


async def test_a_daemon_that_dies_in_mid_run_is_told_after_what_was_received(
    daemon: FakeDaemon, client: RolloutClient
) -> None:
    daemon.die_after = 64
    results: list[object] = []
    async with client.session(credits=16) as session:
        with pytest.raises(Unavailable, match="broke") as caught:
            await gather(session.run(tasks(1000)), results)
        with pytest.raises(GymdError):
            await session.cancel(everything=True)
    assert daemon.address in str(caught.value)
    assert len(results) >= 64


async def test_a_killed_daemon_fails_a_waiting_run(daemon: FakeDaemon, client: RolloutClient) -> None:
    daemon.answer = lambda submission, index: rollout(submission, index) if index == 0 else None
    async with client.session(credits=4) as session:
        stream = session.run(tasks(1, rollout_count=2))
        assert (await anext(stream)).rollout.outcome == OUTCOME_COMPLETED
        waiting = asyncio.ensure_future(anext(stream))
        await daemon.kill()
        with pytest.raises(Unavailable):
            await waiting


async def test_a_silent_daemon_is_given_up(daemon: FakeDaemon, client: RolloutClient) -> None:
    daemon.answer = lambda submission, index: None
    daemon.progress_interval_s = 0.05
    async with client.session(credits=4) as session:
        with pytest.raises(Unavailable, match="silent"):
            await gather(session.run(tasks(1)), [])


async def test_no_daemon_is_told_with_what_to_do(daemon: FakeDaemon) -> None:
    await daemon.kill()
    async with RolloutClient(daemon.address) as client:
        with pytest.raises(Unavailable, match="gymctl up"):
            await client.list_servers()
        with pytest.raises(Unavailable, match="gymctl up"):
            async with client.session():
                pass


async def test_an_error_of_the_source_reaches_the_caller(client: RolloutClient) -> None:
    def source() -> Iterator[TaskSubmission]:
        yield from tasks(3)
        raise RuntimeError("bad row")

    async with client.session(credits=2) as session:
        with pytest.raises(RuntimeError, match="bad row"):
            await gather(session.run(source()), [])


async def test_leaving_early_breaks_the_stream(daemon: FakeDaemon, client: RolloutClient) -> None:
    async with client.session(credits=4) as session:
        async for _ in session.run(tasks(1000)):
            break
    assert session.summary is None
    async with client.session(credits=4) as again:
        assert len([one async for one in again.run(tasks(5))]) == 5


async def test_a_session_can_run_several_times(daemon: FakeDaemon, client: RolloutClient) -> None:
    async with client.session(credits=4) as session:
        for _ in range(3):
            assert len([one async for one in session.run(tasks(10), final=False)]) == 10
        assert session.summary is None
        assert len([one async for one in session.run([])]) == 0
        assert session.summary is not None
        with pytest.raises(InvalidRequest, match="another session"):
            session.run([])


async def test_a_run_that_never_began_holds_nothing(client: RolloutClient) -> None:
    async with client.session() as session:
        unused = session.run(tasks(1))
        assert len([one async for one in session.run(tasks(1), final=False)]) == 1
        running = session.run(tasks(2), final=False)
        await anext(running)
        with pytest.raises(InvalidRequest, match="this session runs"):
            await anext(unused)


async def test_what_was_not_entered_or_left_says_so(daemon: FakeDaemon, client: RolloutClient) -> None:
    with pytest.raises(RuntimeError, match="async with RolloutClient"):
        await RolloutClient(daemon.address).list_servers()
    session = client.session()
    with pytest.raises(RuntimeError, match="as session:"):
        session.run(tasks(1))
    with pytest.raises(RuntimeError, match="as session:"):
        await session.cancel(everything=True)
    async with session:
        pass
    with pytest.raises(Cancelled, match="was left"):
        session.run(tasks(1))
    with pytest.raises(Cancelled, match="was left"):
        await session.update_policy(1)


async def test_registry_helpers(daemon: FakeDaemon, client: RolloutClient) -> None:
    daemon.servers = [server("a"), server("m", "model")]
    assert [one.name for one in (await client.list_servers()).servers] == ["a", "m"]
    assert [one.name for one in (await client.list_servers(kind=1)).servers] == ["m"]
    assert (await client.server_logs("a", 2))[0].lines == ["line 2", "line 3"]
    assert await client.restart_server("a") == ["a", "neighbour"]
    assert (await client.drain_server("a"))[0].name == "a"
    assert (await client.metrics())[0].name == "rollouts_total"
    assert await client.list_sessions() == []
    async for change in client.watch_servers():
        assert change.snapshot
        break
    with pytest.raises(GymdError, match="no server is called") as caught:
        await client.drain_server("nobody")
    assert caught.value.metadata == {"server": "nobody"}
    with pytest.raises(GymdError, match="is called nobody: registered are a"):
        await client.ask_agent(
            "nobody", __import__("gymapi.v1.responses_pb2").v1.responses_pb2.ResponseCreateParams()
        )


def test_deadlines_are_seconds() -> None:
    made = deadlines(rollout=1.5, tool=60)
    assert made.rollout.ToMilliseconds() == 1500
    assert made.tool.seconds == 60
    assert not made.HasField("model")
