"""What a trainer may build on, whatever happens: each promise of the rollout stream as a test of its name."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from gymapi.v1 import rollout_service_pb2 as pb
from gymapi.v1.rollout_pb2 import Outcome, Stage
from gymd.client import RolloutClient, deadlines
from gymd.client.rows import make_task, parse_row
from gymd.client.tokens import branches
from gymd.config import ServerSpec
from gymd.sdk import ResourcesServer, tool
from gymd.sdk.testing import FakeModel, function_call, make_response, message, start_servers
from gymservers.agents.simple_agent.server import SimpleAgent
from tests.fakes.mesh import RunningMesh, running, task, toy

COMPLETED = Outcome.OUTCOME_COMPLETED
pytestmark = pytest.mark.asyncio(loop_scope="module")


def exam() -> list[ServerSpec]:
    """Multiple choice, with a policy that always answers B."""
    peers = {
        "model_server": {"type": "responses_api_models", "name": "always_b"},
        "resources_server": {"type": "resources_servers", "name": "mcqa"},
    }
    rules = {"rules": [{"text": "\\boxed{B}"}], "return_token_id_information": True}
    return [
        ServerSpec(name="exam", kind="agent", implementation="simple_agent", config=peers),
        ServerSpec(name="mcqa", kind="resources", implementation="mcqa"),
        ServerSpec(name="always_b", kind="model", implementation="scripted_model", config=rules),
    ]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def mesh(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RunningMesh]:
    slow = toy("slow", config={"delay_s": 0.2})
    async with running(tmp_path_factory.mktemp("state"), toy(), slow, *exam()) as one:
        yield one


def question(task_id: str, expected: str | None) -> pb.TaskSubmission:
    """A row; without an expected answer it does not fit its environment."""
    row: dict[str, Any] = {
        "responses_create_params": {"input": "A or B?"},
        "options": [{"A": "one"}, {"B": "two"}],
        "grading_mode": "strict_single_letter_boxed",
        "agent_ref": {"type": "responses_api_agents", "name": "exam"},
    }
    if expected is None:
        row["options"] = 7
    else:
        row["expected_answer"] = expected
    return pb.TaskSubmission(task_id=task_id, task=make_task(parse_row(json.dumps(row))))


async def test_1_every_accepted_rollout_ends_in_exactly_one_result(mesh: RunningMesh) -> None:
    stream = await mesh.stream().open(default_agent="toy")
    await stream.submit(
        task("good", rollout_count=5),
        *(task(f"hang{n}", "hang") for n in range(3)),
        task("late", "hang", deadlines=deadlines(rollout=0.3)),
        question("wrong", "A"),
        question("bad", None),
    )
    await stream.until(8)
    await stream.send(cancel=pb.CancelWork(all=True))
    summary = await stream.finish()
    assert [result.sequence for result in stream.results] == list(range(1, 12))
    assert len({result.rollout.rollout_id for result in stream.results}) == 11
    assert summary.result_count == 11
    assert sum(count.count for count in summary.outcome_counts) == 11


async def test_2_no_reward_that_no_verifier_has_said(mesh: RunningMesh) -> None:
    stream = await mesh.stream().open(default_agent="toy")
    await stream.submit(
        question("right", "B"),
        question("wrong", "A"),
        question("bad", None),
        task("late", "hang", deadlines=deadlines(rollout=0.3)),
        task("hang", "hang"),
    )
    await stream.until(4)
    await stream.send(cancel=pb.CancelWork(task_id="hang"))
    await stream.finish()
    rewards = {
        result.rollout.task_id: result.rollout.reward.value
        for result in stream.results
        if result.rollout.HasField("reward")
    }
    assert rewards == {"right": 1.0, "wrong": 0.0}


class Counting(ResourcesServer):
    """Counts how often its tool was carried out."""

    carried_out = 0

    @tool
    async def step(self) -> str:
        """Step."""
        type(self).carried_out += 1
        return "stepped"

    async def verify(self) -> float:
        return 1.0


def traced(number: int) -> Any:
    """A model's answer of turn `number`, with the ids of the whole prompt before it."""
    item = function_call("step", "{}") if number < 3 else message("done")
    item.token_trace.prompt_token_ids.extend(range(10 * number + 5))
    item.token_trace.generation_token_ids.extend(range(10 * number + 5, 10 * number + 9))
    item.token_trace.generation_logprobs.extend([-0.5] * 4)
    return make_response(item)


async def traced_rollout() -> Any:
    peers = {"model_server": {"name": "model"}, "resources_server": {"name": "bench"}}
    servers: dict[str, Any] = {
        "model": (FakeModel, {"script": [traced(number) for number in range(4)]}),
        "bench": (Counting, {}),
        "agent": (SimpleAgent, peers),
    }
    async with start_servers(servers) as mesh:
        row = {"responses_create_params": {"input": "Step."}}
        return await mesh.run_rollout("agent", row, return_tokens=True)


async def test_3_a_branch_holds_the_exact_ids_of_its_last_call() -> None:
    rollout = await traced_rollout()
    [branch] = branches(rollout.trajectory)
    assert branch.ids.tolist() == list(range(39))


async def test_4_as_many_logprobs_as_sampled_ids() -> None:
    rollout = await traced_rollout()
    assert len(rollout.trajectory.segments) == 4
    for segment in rollout.trajectory.segments:
        assert len(segment.logprobs) == sum(span.length for span in segment.sampled_spans) == 4


async def test_5_what_is_in_flight_never_exceeds_the_grant(mesh: RunningMesh) -> None:
    stream = await mesh.stream().open(8, default_agent="slow")
    await stream.submit(*(task(str(number)) for number in range(20)))
    admissions = (await stream.expect("admissions")).admissions
    assert Counter(one.HasField("rejection") for one in admissions) == {False: 8, True: 12}
    assert await mesh.metric("rollouts_running") + await mesh.metric("rollouts_queued") == 8
    await stream.until(8)
    await stream.submit(task("more"))  # the results alone give nothing back
    assert (await stream.expect("admissions")).admissions[0].HasField("rejection")
    await stream.finish()


async def test_6_a_reconnection_neither_loses_nor_doubles(mesh: RunningMesh) -> None:
    stream = mesh.stream()
    opening = pb.OpenSession(client_name="test", granted_rollouts=100, default_agent="toy")
    opening.resume_window.seconds = 60
    await stream.send(open=opening)
    opened = await stream.expect("opened")
    await stream.submit(*(task(str(number)) for number in range(50)), task("last", rollout_count=2))
    while len(stream.results) < 10:
        await stream.expect("results")
    have = 10  # the trainer stored ten of those that it has read, and is gone
    stream.call.cancel()
    again = mesh.stream()
    await again.send(open=pb.OpenSession(session_id=opened.session_id, last_sequence=have))
    assert (await again.expect("opened")).resumed
    await again.until(52 - have)
    stored = [*stream.results[:have], *again.results]
    assert [result.sequence for result in stored] == list(range(1, 53))
    assert len({result.rollout.rollout_id for result in stored}) == 52
    await again.send(ack=pb.AckResults(through_sequence=52))
    assert (await again.finish()).result_count == 52


async def test_7_a_cancel_frees_everything_within_a_bound(mesh: RunningMesh) -> None:
    stream = await mesh.stream().open(default_agent="toy")
    await stream.submit(*(task(f"t{number}", "hang") for number in range(50)))
    await mesh.until_metric("rollouts_running", 50)
    await stream.send(cancel=pb.CancelWork(all=True))
    async with asyncio.timeout(20):
        await stream.until(50)
    for number in range(50):
        await mesh.logged("toy", f"cancelled t{number}/0")
    assert await mesh.metric("rollouts_running") == 0
    await stream.finish()


async def test_8_every_segment_has_its_version_and_nothing_older_is_unmarked(mesh: RunningMesh) -> None:
    async with (
        RolloutClient(mesh.daemon.address) as client,
        client.session(return_tokens=True, policy_version=1) as session,
    ):
        tasks = [question("fresh", "B")]
        found = [result async for result in session.run(tasks, final=False)]
        strict = task("old", "hello")
        strict.task.agent = "slow"
        strict.policy_constraint.max_version_lag = 0
        runs = session.run([strict])
        following = asyncio.ensure_future(anext(runs))
        await mesh.until_metric("rollouts_running", 1)
        await session.update_policy(2)
        found.append(await following)
        async for _ in runs:
            pass
    fresh, old = (result.rollout for result in found if isinstance(result, pb.RolloutResult))
    assert [segment.policy_version for segment in fresh.trajectory.segments] == [1]
    assert (fresh.policy.stale, old.policy.stale) == (False, True)


async def test_9_retries_are_bounded_and_a_tool_call_is_applied_once(tmp_path: Path) -> None:
    async with running(tmp_path, toy()) as frail:
        stream = await frail.stream().open(default_agent="toy", infra_retry_limit=1)
        await stream.submit(task("deadly", "exit"))
        [rollout] = await stream.until(1)
        await stream.finish()
    assert (rollout.outcome, rollout.attempt) == (Outcome.OUTCOME_ENV_FAILED, 2)
    assert len(rollout.failure.attempts) == 1
    # The same call, sent twice because an answer was lost, is carried out once.
    Counting.carried_out = 0
    async with start_servers({"bench": (Counting, {})}) as servers:
        session = await servers["bench"].seed({"responses_create_params": {"input": "x"}})
        async with session:
            first = await session.call_json("step", "{}", "call_1")
            again = await session.call_json("step", "{}", "call_1")
    assert (first, Counting.carried_out) == (again, 1)


async def test_10_one_bad_row_never_ends_a_stream(mesh: RunningMesh) -> None:
    stream = await mesh.stream().open(default_agent="toy")
    nobody, empty = task("nobody"), pb.TaskSubmission(task_id="empty")
    nobody.task.agent = "nobody"
    await stream.submit(nobody, empty, question("bad", None), task("good"))
    admissions = (await stream.expect("admissions")).admissions
    assert [one.HasField("rejection") for one in admissions] == [True, True, False, False]
    await stream.finish()
    outcomes = {result.rollout.task_id: result.rollout.outcome for result in stream.results}
    assert outcomes == {"bad": Outcome.OUTCOME_INVALID_TASK, "good": COMPLETED}


@pytest.mark.parametrize(
    ("limits", "stage"),
    [({"rollout": 0.3}, Stage.STAGE_UNSPECIFIED), ({"queue": 0.3}, Stage.STAGE_QUEUE)],
)
async def test_11_a_timeout_is_an_outcome(mesh: RunningMesh, limits: dict[str, float], stage: int) -> None:
    stream = await mesh.stream().open(default_agent="toy")
    if stage == Stage.STAGE_QUEUE:
        one = task("waits", deadlines=deadlines(**limits))
        one.policy_constraint.min_version = 9  # never comes
        await stream.submit(one)
    else:
        await stream.submit(task("hangs", "hang", deadlines=deadlines(**limits)))
    [rollout] = await stream.until(1)
    assert rollout.outcome == Outcome.OUTCOME_TIMED_OUT
    assert rollout.failure.stage == stage
    assert not rollout.HasField("reward")
    await stream.finish()
