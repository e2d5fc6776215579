"""A trainer that steers its session over real sockets, with the real agent loop behind it."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from gymapi.v1 import rollout_service_pb2 as pb
from gymapi.v1.rollout_pb2 import Outcome, Rollout
from gymd.client import Rejection, RolloutClient, RolloutSession
from gymd.config import ServerSpec
from gymd.errors import InvalidRequest, NotFound
from tests.fakes.mesh import LIMIT_S, RunningMesh, running, task, toy
from tests.fakes.proxy import Proxy

PARTIAL, CANCELLED, COMPLETED, STALE = (
    Outcome.OUTCOME_PARTIAL,
    Outcome.OUTCOME_CANCELLED,
    Outcome.OUTCOME_COMPLETED,
    Outcome.OUTCOME_STALE,
)
SLOW = 30.0
"""Seconds that a model call takes which is not meant to end."""


def agent(name: str, model: str) -> ServerSpec:
    peers = {"model_server": {"type": "responses_api_models", "name": model}}
    return ServerSpec(name=name, kind="agent", implementation="simple_agent", config=peers)


def model(name: str, latency: float) -> ServerSpec:
    config = {"rules": [{"text": "done"}], "latency": latency, "return_token_id_information": True}
    return ServerSpec(name=name, kind="model", implementation="scripted_model", config=config)


pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def mesh(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RunningMesh]:
    folder: Path = tmp_path_factory.mktemp("state")
    servers = (
        *(agent("quick", "fast"), model("fast", 0.0)),
        *(agent("stuck", "slow"), model("slow", SLOW)),
        *(agent("brisk", "short"), model("short", 0.3)),
        *(agent("calm", "long"), model("long", 2.0)),
        toy("toy", config={"delay_s": 0.05}),
        toy("scored", config={"delay_s": 0.3}),
        *(toy(f"{name}_agent", config={"resources_server": {"name": name}}) for name in ("sums", "words")),
    )
    async with running(folder, *servers) as one:
        yield one


def client_of(mesh: RunningMesh) -> RolloutClient:
    return RolloutClient(mesh.daemon.address, client_name="test")


async def collect(session: RolloutSession, *tasks: pb.TaskSubmission, final: bool = True) -> list[Rollout]:
    found = []
    async for result in session.run(tasks, final=final):
        assert isinstance(result, pb.RolloutResult), result
        found.append(result.rollout)
    return found


@pytest.mark.parametrize(("mode", "outcome"), [("abort", CANCELLED), ("partial", PARTIAL)])
async def test_a_stuck_model_call_is_aborted_and_the_release_is_timed(
    mesh: RunningMesh, mode: str, outcome: int
) -> None:
    before = await mesh.metric("rollouts_released_total")
    async with client_of(mesh) as client, client.session(default_agent="quick") as session:
        await collect(session, task("first"))  # from now on the daemon's link to the host is open
    async with client_of(mesh) as client, client.session(default_agent="stuck") as session:
        results = asyncio.create_task(collect(session, *(task(f"t{n}") for n in range(20))))
        await mesh.until_metric("rollouts_running", 20)
        assert await session.cancel(everything=True, mode=mode) == 20  # type: ignore[arg-type]
        async with asyncio.timeout(20):
            rollouts = await results
    assert {rollout.outcome for rollout in rollouts} == {outcome}
    timings = [rollout.timing for rollout in rollouts]
    # One that had not begun in its host yet had nothing to release.
    releases = [t.release_duration.ToMilliseconds() for t in timings if t.HasField("release_duration")]
    assert releases
    assert max(releases) < 10_000 < SLOW * 1000
    await mesh.until_metric("rollouts_released_total", before + 20)


async def test_finish_turn_waits_for_the_model(mesh: RunningMesh) -> None:
    async with client_of(mesh) as client, client.session(default_agent="brisk") as session:
        results = asyncio.create_task(collect(session, task("t")))
        await mesh.until_metric("rollouts_running", 1)
        assert await session.cancel(task_id="t", mode="finish_turn") == 1
        [rollout] = await results
    assert (rollout.outcome, rollout.model_call_count) == (PARTIAL, 1)
    assert rollout.response.output[0].message.content_parts.parts[0].output_text.text == "done"


async def test_an_agent_that_cannot_be_told_is_cancelled_all_the_same(mesh: RunningMesh) -> None:
    async with client_of(mesh) as client, client.session(default_agent="toy") as session:
        results = asyncio.create_task(collect(session, task("t", "hang")))
        await mesh.until_metric("rollouts_running", 1)
        assert await session.cancel(everything=True, mode="partial") == 1
        assert [rollout.outcome for rollout in await results] == [CANCELLED]
    await mesh.logged("toy", "cancelled t/0")


async def test_versions_pass_to_the_segments_and_pauses_hold_everything(mesh: RunningMesh) -> None:
    async with client_of(mesh) as client:
        session = client.session(default_agent="brisk", return_tokens=True, policy_version=7)
        async with session:
            first = asyncio.create_task(collect(session, task("a"), final=False))
            await mesh.until_metric("rollouts_running", 1)
            paused = await session.update_policy(8, "paused", inflight="abort_resume")
            assert (paused.older_running_count, paused.running_count) == (1, 1)
            await asyncio.sleep(0.5)
            assert not first.done()  # its call was aborted, and waits
            live = await session.update_policy(8)
            assert live.older_running_count == 1
            [rollout] = await first
            [again] = await collect(session, task("b"))
    assert rollout.trajectory.segments[0].policy_version == 8
    assert (rollout.policy.start_version, rollout.policy.end_version) == (7, 8)
    assert (again.policy.start_version, again.policy.end_version) == (8, 8)


@pytest.mark.parametrize(
    ("mode", "outcome", "versions", "stale", "for_loss"),
    [
        ("PACE", COMPLETED, (1, 2), True, None),
        ("DROP", STALE, (1, 2), True, None),
        ("WITHHOLD", COMPLETED, (2, 2), False, None),
        ("MASK", COMPLETED, (1, 2), True, False),
    ],
)
async def test_a_rollout_whose_policy_becomes_too_old(
    mesh: RunningMesh, mode: str, outcome: int, versions: tuple[int, int], stale: bool, for_loss: bool | None
) -> None:
    strict = task("t")
    strict.policy_constraint.max_version_lag = 0
    strict.policy_constraint.mode = pb.StalenessMode.Value(f"STALENESS_MODE_{mode}")
    async with client_of(mesh) as client, client.session(default_agent="scored", policy_version=1) as session:
        results = asyncio.create_task(collect(session, strict))
        await mesh.until_metric("rollouts_running", 1)
        await session.update_policy(2)
        [rollout] = await results
    assert (rollout.outcome, rollout.policy.stale) == (outcome, stale)
    assert (rollout.policy.start_version, rollout.policy.end_version) == versions
    assert rollout.reward.HasField("value") is (outcome == COMPLETED)
    assert (rollout.reward.use_for_loss if rollout.reward.HasField("use_for_loss") else None) is for_loss


async def test_a_drain_ends_when_nothing_runs(mesh: RunningMesh) -> None:
    async with client_of(mesh) as client:
        session = client.session(default_agent="brisk", credits=2, policy_version=1)
        async with session:
            results = asyncio.create_task(collect(session, *(task(str(n)) for n in range(4))))
            await mesh.until_metric("rollouts_running", 2)
            ack = await session.update_policy(2, "pending", inflight="drain")
            assert ack.running_count == 0
            assert await mesh.metric("rollouts_running") == 0
            assert not results.done()
            await session.update_policy(2)
            rollouts = await results
    assert [rollout.policy.start_version for rollout in rollouts] == [1, 1, 2, 2]


async def test_one_rollout_of_several_can_be_cancelled(mesh: RunningMesh) -> None:
    async with client_of(mesh) as client, client.session(default_agent="stuck") as session:
        results = asyncio.create_task(collect(session, task("t", rollout_count=3, first_index=2)))
        await mesh.until_metric("rollouts_running", 3)
        assert await session.cancel(rollout_id="t/3") == 1
        await mesh.until_metric("rollouts_running", 2)
        assert await session.cancel(task_id="t") == 2
        assert (await results)[0].rollout_id == "t/3"


async def test_an_environment_can_be_cancelled(mesh: RunningMesh) -> None:
    async with client_of(mesh) as client, client.session() as session:
        tasks = [task(name, "hang") for name in ("sums", "words", "none")]
        for one, agent_name in zip(tasks, ("sums_agent", "words_agent", "toy"), strict=True):
            one.task.agent = agent_name
        results = asyncio.create_task(collect(session, *tasks))
        await mesh.until_metric("rollouts_running", 3)
        assert await session.cancel(environment="sums") == 1
        await mesh.until_metric("rollouts_running", 2)
        with pytest.raises(NotFound, match="known are: sums, words"):
            await session.cancel(environment="maths")
        assert await session.cancel(environment="words") == 1
        assert await session.cancel(agent="toy") == 1
        assert [rollout.task_id for rollout in await results] == ["sums", "words", "none"]


async def test_a_cancel_that_is_sent_again_spares_what_came_after_it(mesh: RunningMesh) -> None:
    """The connection breaks when the daemon has carried it out, before the client knows."""
    more = asyncio.Event()

    async def tasks() -> AsyncIterator[pb.TaskSubmission]:
        yield task("early", "hang", rollout_count=2)
        await more.wait()
        yield task("late")

    async def results(session: RolloutSession) -> list[Rollout]:
        found = session.run(tasks())
        return [one.rollout async for one in found if isinstance(one, pb.RolloutResult)]

    before = await mesh.metric("tasks_accepted_total")
    async with (
        Proxy(mesh.daemon.address) as proxy,
        RolloutClient(proxy.address) as client,
        client.session(default_agent="toy", policy_version=1) as session,
    ):
        coming = asyncio.create_task(results(session))
        await mesh.until_metric("rollouts_running", 2)
        await session.update_policy(2, "paused")  # the later one begins when the test says so
        proxy.mute()
        answer = asyncio.create_task(session.cancel(everything=True))
        await mesh.until_metric("rollouts_running", 0)
        more.set()
        await mesh.until_metric("tasks_accepted_total", before + 2)
        proxy.cut()
        assert await answer == 2
        await session.update_policy(2)
        rollouts = await coming
        assert session.reconnects == 1
    assert [(one.rollout_id, one.outcome) for one in rollouts[-1:]] == [("late/0", COMPLETED)]
    assert rollouts[-1].reward.value == 1.0
    assert {(one.task_id, one.outcome) for one in rollouts[:2]} == {("early", CANCELLED)}


async def test_a_process_that_goes_on_with_a_session_cancels_under_numbers_of_its_own(
    mesh: RunningMesh,
) -> None:
    async with client_of(mesh) as client:
        async with client.session(default_agent="stuck") as first:
            first.hold_acks(0)
            results = asyncio.create_task(collect(first, task("a"), task("b"), task("c"), final=False))
            await mesh.until_metric("rollouts_running", 3)
            assert await first.cancel(task_id="a") == 1
            assert await first.cancel(task_id="b") == 1
            first.detach()
            results.cancel()
        async with client.resume(first.session_id, last_sequence=0) as second:
            assert await second.cancel(everything=True) == 1
            assert [rollout.outcome for rollout in await collect(second)] == [CANCELLED] * 3


async def test_old_policies_can_be_cancelled(mesh: RunningMesh) -> None:
    async with (
        client_of(mesh) as client,
        client.session(default_agent="stuck", policy_version=0) as session,
    ):
        results = asyncio.create_task(collect(session, task("old"), task("older")))
        await mesh.until_metric("rollouts_running", 2)
        assert await session.cancel(older_than_version=0) == 0
        await session.update_policy(1)
        assert await session.cancel(older_than_version=1) == 2
        assert {rollout.outcome for rollout in await results} == {CANCELLED}


async def test_a_version_that_shrinks_ends_the_session_with_the_reason(mesh: RunningMesh) -> None:
    async with (
        client_of(mesh) as client,
        client.session(default_agent="quick", policy_version=5) as session,
    ):
        with pytest.raises(InvalidRequest, match="versions only grow"):
            await session.update_policy(4)


async def test_a_trainer_that_comes_back_ends_the_pause_in_which_another_died(mesh: RunningMesh) -> None:
    stream = mesh.stream()
    opening = pb.OpenSession(granted_rollouts=9, default_agent="calm", policy_version=1, return_tokens=True)
    opening.resume_window.seconds = 60
    await stream.send(open=opening)
    opened = await stream.expect("opened")
    await stream.submit(task("a"))
    await mesh.until_metric("rollouts_running", 1)
    phase, inflight = "POLICY_PHASE_PAUSED", "INFLIGHT_MODE_ABORT_RESUME"
    await stream.send(policy_update=pb.PolicyUpdate(version=2, phase=phase, inflight=inflight))
    assert (await stream.expect("policy_update_ack")).running_count == 1
    stream.call.cancel()  # its model call is held, and nothing else runs at its agent
    again = mesh.stream()
    await again.send(open=pb.OpenSession(session_id=opened.session_id, policy_version=2))
    assert not (await again.expect("opened")).policy_paused
    [rollout] = await again.until(1)
    assert rollout.outcome == COMPLETED
    assert [segment.policy_version for segment in rollout.trajectory.segments] == [2]
    await again.finish()


async def test_bytes_bound_what_waits_for_a_slow_consumer(mesh: RunningMesh) -> None:
    async with (
        client_of(mesh) as client,
        client.session(default_agent="quick", byte_credits=20_000) as session,
    ):
        count = 0
        async for result in session.run(task(str(n)) for n in range(200)):
            assert isinstance(result, pb.RolloutResult)
            count += 1
            waiting = sum(r.rollout.ByteSize() for r in session._inbox if isinstance(r, pb.RolloutResult))
            assert waiting <= 20_000
            if count % 50 == 0:
                await asyncio.sleep(0.05)  # let them come

    assert count == 200


async def test_results_larger_than_the_credits_of_bytes_come_one_by_one(mesh: RunningMesh) -> None:
    async with client_of(mesh) as client:
        session = client.session(default_agent="toy", byte_credits=1)
        session._opening.progress_interval.seconds = 1
        async with session, asyncio.timeout(LIMIT_S):
            results = [result async for result in session.run([task("a"), task("b")])]
    assert [type(result) for result in results] == [pb.RolloutResult] * 2


async def test_a_task_that_is_handed_in_twice_comes_once_and_is_refused_once(mesh: RunningMesh) -> None:
    async with client_of(mesh) as client, asyncio.timeout(LIMIT_S):
        async with client.session(default_agent="toy") as session:
            found = [one async for one in session.run([task("a"), task("a"), task("b")])]
        assert session.summary is not None
    refused = [one for one in found if isinstance(one, Rejection)]
    assert [(one.task_id, one.error.reason_name) for one in refused] == [("a", "NAME_TAKEN")]
    rollouts = [one.rollout.rollout_id for one in found if isinstance(one, pb.RolloutResult)]
    assert sorted(rollouts) == ["a/0", "b/0"]


async def test_ids_are_free_for_the_next_run_of_a_session(mesh: RunningMesh) -> None:
    names = ("a", "b")
    async with client_of(mesh) as client, client.session(default_agent="toy") as session:
        for _ in range(3):
            rollouts = await collect(session, *map(task, names), final=False)
            assert sorted(rollout.task_id for rollout in rollouts) == sorted(names)


async def test_evaluation_overtakes_training_and_groups_want_k_of_n(mesh: RunningMesh) -> None:
    stream = await mesh.stream().open(default_agent="toy", agent_shares={})
    await stream.submit(task("a", rollout_count=8, group_id="g", wanted_count=3))
    news = await stream.expect("group_completed")
    assert (news.group_id, news.mean_reward) == ("g", 1.0)
    outcomes = Counter(result.rollout.outcome for result in stream.results)
    assert outcomes[COMPLETED] >= 3
    assert sum(outcomes.values()) == 8
    await stream.finish()
