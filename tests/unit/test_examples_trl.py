"""The recipes for TRL without TRL: what they make of rollouts, and how the worker meets a trainer."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from gymapi.v1.rollout_pb2 import Rollout
from gymapi.v1.rollout_service_pb2 import PolicyPhase, TaskSubmission
from gymd.errors import NotFound, error
from tests.fakes.daemon import FakeDaemon, rollout

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples" / "trl"))
from gymd_trl import Source, env_reward, make_rollout_func, read_rows
from gymd_worker import HoldingTransfer, RolloutWorker, Sample

EOS = 99


def row(name: str) -> str:
    return json.dumps({"responses_create_params": {"input": name}, "agent_ref": {"name": "a"}})


def scored(submission: TaskSubmission, index: int, reward: float | None = None) -> Rollout:
    """Two turns with a tool's result between them; by default the reward is the index."""
    made = rollout(submission, index, reward=float(index) if reward is None else reward)
    made.trajectory.segments.add(token_ids=[1, 2, 3], logprobs=[-0.5]).sampled_spans.add(start=2, length=1)
    second = made.trajectory.segments.add(parent=0, token_ids=[7, 4, 5], logprobs=[-1.0, -2.0])
    second.sampled_spans.add(start=1, length=2)
    return made


def flagged(submission: TaskSubmission, index: int) -> Rollout:
    """The second is not to be trained on; the third is not either, but counts in the baseline; the fourth
    does not count there."""
    made = scored(submission, index)
    if index in (1, 2):
        made.reward.use_for_loss = False
    if index in (2, 3):
        made.reward.use_for_baseline = index == 2
    return made


def failed(submission: TaskSubmission, index: int) -> Rollout:
    cause = error("UPSTREAM_UNAVAILABLE", "the engine is gone", upstream="x")
    return rollout(submission, index, outcome="MODEL_FAILED", failure=cause)


TRAINER = SimpleNamespace(
    args=SimpleNamespace(temperature=0.7, top_p=0.9, max_completion_length=64),
    processing_class=SimpleNamespace(eos_token_id=EOS),
)


async def roll_out(daemon: FakeDaemon, prompts: list[str], trainer: Any = TRAINER, **source: Any) -> Any:
    """As a trainer calls it: from a thread without a loop."""
    function = make_rollout_func(Source(daemon.address, **source))
    return await asyncio.to_thread(function, prompts, trainer)


class TestRolloutFunc:
    async def test_one_completion_for_each_prompt(self) -> None:
        async with FakeDaemon() as daemon:
            daemon.answer = scored
            batch = await roll_out(daemon, [row("x")] * 2 + [row("y")] * 2)
        assert batch["prompt_ids"] == [[1, 2]] * 4
        assert batch["completion_ids"] == [[3, 7, 4, 5]] * 4
        assert batch["env_mask"] == [[1, 0, 1, 1]] * 4
        assert batch["logprobs"] == [[-0.5, 0.0, -1.0, -2.0]] * 4
        assert batch["env_reward"] == [0.0, 1.0, 0.0, 1.0]
        assert batch["outcome"] == ["completed"] * 4
        assert env_reward(prompts=[], completions=[], **batch) == batch["env_reward"]

    async def test_equal_neighbours_are_a_group_and_the_order_is_kept(self) -> None:
        seen: list[tuple[str, int]] = []

        def answer(submission: TaskSubmission, index: int) -> Rollout:
            if index == 0:
                seen.append((submission.task.create_params.input_text, submission.rollout_count))
            return scored(submission, index, {"x": 0.0, "y": 10.0}[submission.task.create_params.input_text])

        async with FakeDaemon() as daemon:
            daemon.answer = answer
            batch = await roll_out(daemon, [row("x"), row("x"), row("y"), row("x")])
            [session] = daemon.sessions
        assert seen == [("x", 2), ("y", 1), ("x", 1)]
        assert batch["env_reward"] == [0.0, 0.0, 10.0, 0.0]
        assert session.opening.return_tokens

    async def test_the_trainers_sampling_goes_along_unless_the_source_says_otherwise(self) -> None:
        params: list[Any] = []

        def answer(submission: TaskSubmission, index: int) -> Rollout:
            params.append(submission.task.create_params)
            return scored(submission, index)

        async with FakeDaemon() as daemon:
            daemon.answer = answer
            await roll_out(daemon, [row("x")], params={"top_p": 0.5})
        assert (params[0].temperature, params[0].top_p, params[0].max_output_tokens) == (0.7, 0.5, 64)

    async def test_a_failed_rollout_is_masked_and_has_no_reward(self) -> None:
        async with FakeDaemon() as daemon:
            daemon.answer = lambda s, index: scored(s, index) if index else failed(s, index)
            batch = await roll_out(daemon, [row("x")] * 2)
        assert (batch["completion_ids"][0], batch["env_mask"][0]) == ([EOS], [0])
        assert batch["env_reward"] == [None, 1.0]
        assert batch["outcome"] == ["model_failed", "completed"]

    async def test_what_the_verifier_says_of_its_use_holds(self) -> None:
        async with FakeDaemon() as daemon:
            daemon.answer = flagged
            batch = await roll_out(daemon, [row("x")] * 4)
        assert [sum(mask) for mask in batch["env_mask"]] == [3, 0, 0, 3]
        assert batch["env_reward"] == [0.0, None, 2.0, 3.0]

    async def test_what_is_too_long_is_cut_at_its_end(self) -> None:
        args = SimpleNamespace(temperature=1.0, top_p=1.0, max_completion_length=2)
        trainer = SimpleNamespace(args=args, processing_class=TRAINER.processing_class)
        async with FakeDaemon() as daemon:
            daemon.answer = scored
            batch = await roll_out(daemon, [row("x")], trainer)
        assert batch["completion_ids"] == [[3, 7]]
        assert batch["env_mask"] == [[1, 0]]
        assert batch["logprobs"] == [[-0.5, 0.0]]

    async def test_nothing_to_train_on_is_an_error(self) -> None:
        async with FakeDaemon() as daemon:
            daemon.answer = failed
            with pytest.raises(RuntimeError, match=r"none of 2 rollouts .* model_failed: the engine is gone"):
                await roll_out(daemon, [row("x")] * 2)
            daemon.answer = rollout
            with pytest.raises(ValueError, match=r"without token ids.*vllm_model_for_training"):
                await roll_out(daemon, [row("x")])

    async def test_a_prompt_that_is_too_long_is_masked(self) -> None:
        def too_long(submission: TaskSubmission, index: int) -> Rollout:
            made = rollout(submission, index, outcome="TRUNCATED_TOKENS")
            del made.response.output[:]
            made.response.usage.output_tokens = 0
            return made

        async with FakeDaemon() as daemon:
            daemon.answer = lambda s, index: scored(s, index) if index else too_long(s, index)
            batch = await roll_out(daemon, [row("x")] * 2)
        assert (batch["completion_ids"][0], batch["env_mask"][0]) == ([EOS], [0])
        assert batch["outcome"] == ["truncated_tokens", "completed"]

    async def test_a_refused_task_is_an_error(self) -> None:
        async with FakeDaemon() as daemon:
            daemon.reject = lambda submission: error("SERVER_NOT_FOUND", "no agent a", server="a")
            with pytest.raises(NotFound, match="no agent a"):
                await roll_out(daemon, [row("x")])

    def test_rows_are_checked_when_they_are_read(self, tmp_path: Path) -> None:
        file = tmp_path / "rows.jsonl"
        file.write_text(f"{row('x')}\n\n{row('y')}\n")
        assert read_rows(file) == [row("x"), row("y")]
        file.write_text(row("x") + '\n{"question": 1}\n')
        with pytest.raises(ValueError, match=r"rows\.jsonl:2: responses_create_params is missing"):
            read_rows(file)
        file.write_text("\n")
        with pytest.raises(ValueError, match="holds no rows"):
            read_rows(file)


@asynccontextmanager
async def running(daemon: FakeDaemon, *, version: int = 0, **options: Any) -> AsyncIterator[RolloutWorker]:
    given = {"num_generations": 2, "max_samples": 4, "max_staleness": 2, **options}
    worker = RolloutWorker(Source(daemon.address), [row("x"), row("y")], **given)
    worker.update_model_version(version)
    await asyncio.to_thread(worker.start)
    try:
        yield worker
    finally:
        await asyncio.to_thread(worker.stop)  # the fake daemon runs on this loop


async def take(worker: RolloutWorker, count: int) -> list[Sample]:
    return [await asyncio.to_thread(worker.rollout_buffer.get, True, 10) for _ in range(count)]


class TestWorker:
    @pytest.fixture
    async def daemon(self) -> AsyncIterator[FakeDaemon]:
        async with FakeDaemon() as daemon:
            daemon.answer = scored
            yield daemon

    async def test_samples(self, daemon: FakeDaemon) -> None:
        async with running(daemon) as worker:
            first, second = await take(worker, 2)
        assert first.input_ids.tolist() == [1, 2, 3, 7, 4, 5]
        assert first.completion_mask.tolist() == [0, 0, 1, 0, 1, 1]
        assert first.old_log_probs.tolist() == [0.0, 0.0, -0.5, 0.0, -1.0, -2.0]
        assert first.input_ids.dtype == first.completion_mask.dtype == np.int64
        assert first.old_log_probs.dtype == np.float32
        assert (first.group_id, second.group_id) == (0, 0)
        assert (first.advantage, second.advantage) == pytest.approx((-1.0, 1.0))
        assert (first.metrics["reward"], first.metrics["reward_std"]) == (0.0, 0.5)
        assert first.prompt[0]["role"] == "user"
        assert first.completion[0]["role"] == "assistant"

    async def test_what_the_verifier_says_of_its_use_holds(self, daemon: FakeDaemon) -> None:
        daemon.answer = flagged
        async with running(daemon, num_generations=4) as worker:
            first, second = await take(worker, 2)
        assert (first.metrics["reward"], second.metrics["reward"]) == (0.0, 3.0)
        spread = np.std([0.0, 1.0, 2.0])  # the mean of those is 1
        assert (first.advantage, second.advantage) == pytest.approx((-1.0 / spread, 2.0 / spread))

    async def test_no_more_exist_than_allowed(self, daemon: FakeDaemon) -> None:
        """What the trainer takes makes room, one group at a time."""
        async with running(daemon) as worker:
            await daemon.until(lambda: self.delivered(daemon) == 4)
            assert len(await take(worker, 1)) == 1
            assert self.delivered(daemon) == 4  # half a group's room is none
            await take(worker, 1)
            await daemon.until(lambda: self.delivered(daemon) == 6)
            assert worker.rollout_buffer.qsize() <= 4

    async def test_versions_and_holding(self, daemon: FakeDaemon) -> None:
        """Nothing is handed in while the weights change; what comes later has the new version."""
        async with running(daemon, max_samples=2) as worker:
            await daemon.until(lambda: self.delivered(daemon) == 2)
            calls: list[str] = []
            transfer = HoldingTransfer(Recorder(calls), worker)
            transfer.init_weight_transfer()
            transfer.pause()
            assert {sample.model_version for sample in await take(worker, 2)} == {0}
            transfer.send_weights(iter(()))
            transfer.resume()
            assert self.delivered(daemon) == 2
            worker.update_model_version(1)
            assert {sample.model_version for sample in await take(worker, 2)} == {1}
            transfer.destroy()
            [session] = daemon.sessions
            await daemon.until(lambda: len(session.updates) == 2)
        told = [(update.version, PolicyPhase.Name(update.phase)) for update in session.updates]
        assert told == [(1, "POLICY_PHASE_PAUSED"), (1, "POLICY_PHASE_LIVE")]
        assert calls == ["init_weight_transfer", "pause", "send_weights", "resume", "destroy"]

    async def test_versions_of_segments_count_if_they_are_known(self, daemon: FakeDaemon) -> None:
        def answer(submission: TaskSubmission, index: int) -> Rollout:
            made = scored(submission, index)
            for number, segment in enumerate(made.trajectory.segments):
                segment.policy_version = 7 - number
            return made

        daemon.answer = answer
        async with running(daemon) as worker:
            assert {sample.model_version for sample in await take(worker, 2)} == {6}

    async def test_what_is_too_old_is_dropped_and_counted(self, daemon: FakeDaemon) -> None:
        def answer(submission: TaskSubmission, index: int) -> Rollout:
            made = scored(submission, index)
            for segment in made.trajectory.segments:
                segment.policy_version = 0 if submission.task_id == "0" else 3
            return made

        daemon.answer = answer
        async with running(daemon, version=3) as worker:
            assert [sample.group_id for sample in await take(worker, 2)] == [1, 1]
        assert worker.metrics_queue.get_nowait()["rollout/dropped_stale_total"] == 2

    async def test_failures_give_no_samples_and_cost_no_room(self, daemon: FakeDaemon) -> None:
        daemon.answer = lambda s, index: failed(s, index) if int(s.task_id) < 5 else scored(s, index)
        async with running(daemon) as worker:
            assert [sample.group_id for sample in await take(worker, 2)] == [5, 5]
            worker.check_health(60)
        assert worker.metrics_queue.get_nowait()["rollout/unscored_total"] == 2

    @pytest.mark.parametrize(
        ("answer", "why"),
        [(failed, r"100 rollouts in a row .* the engine is gone"), (rollout, "without token ids")],
    )
    async def test_a_trainer_is_told_what_went_wrong(
        self, daemon: FakeDaemon, answer: Callable[..., Rollout], why: str
    ) -> None:
        daemon.answer = answer
        async with running(daemon) as worker:
            assert worker._thread is not None
            await asyncio.to_thread(worker._thread.join, 10)
            with pytest.raises(RuntimeError, match=why):
                worker.check_health(60)

    async def test_silence_is_noticed(self, daemon: FakeDaemon) -> None:
        """Rollouts under way, and not even a sign of life."""
        daemon.answer = lambda submission, index: None  # type: ignore[assignment,return-value]
        async with running(daemon) as worker:
            await daemon.until(lambda: bool(daemon.sessions) and "submit" in daemon.sessions[0].frames)
            worker.check_health(60)
            with pytest.raises(RuntimeError, match=r"nothing came of the daemon .* 2 groups under way"):
                worker.check_health(0)

    async def test_stopping_gives_up_what_is_under_way(self, daemon: FakeDaemon) -> None:
        daemon.answer = lambda submission, index: None  # type: ignore[assignment,return-value]
        async with running(daemon) as worker:
            await daemon.until(lambda: bool(daemon.sessions) and "submit" in daemon.sessions[0].frames)
        assert worker._thread is None
        worker.check_health(60)
        await daemon.until(lambda: daemon.sessions[0].broken)

    @staticmethod
    def delivered(daemon: FakeDaemon) -> int:
        return sum(session.delivered for session in daemon.sessions)


class Recorder:
    """A weight transfer that notes its calls."""

    def __init__(self, calls: list[str]) -> None:
        self._calls = calls

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *given: self._calls.append(name)
