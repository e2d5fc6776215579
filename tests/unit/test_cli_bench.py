"""The trainer simulator: its distributions, its books and its figures; and the command against a daemon."""

import json
import os
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gymapi.v1.rollout_pb2 import Rollout
from gymapi.v1.rollout_service_pb2 import TaskSubmission
from gymctl.bench.distributions import Distribution, share
from gymctl.bench.figures import Memory, Times, document, lines, quantile, quantile_of_counts
from gymctl.bench.memory import pss_bytes, tree
from gymctl.bench.progress import ProgressLine
from gymctl.bench.trainer import Plan, Trainer
from gymd.errors import error
from gymservers.models.scripted_model.chance import parse_distribution
from gymservers.models.scripted_model.chance import share as model_share
from tests.fakes.daemon import FakeDaemon, rollout, server
from tests.fakes.gymctl import gymctl

FORMS = ["3", "fixed:0.5", "uniform:1:3", "exponential:2", "lognormal:200:0.5"]


@pytest.mark.parametrize("form", FORMS)
def test_distributions_are_those_of_the_simulated_model(form: str) -> None:
    mine, parts = Distribution.parse(form), [share(7, "x", number) for number in range(200)]
    assert parts == [model_share(7, "x", number) for number in range(200)]
    theirs = parse_distribution(str(mine))
    assert [mine.at(part) for part in parts] == [theirs(part) for part in parts]


@pytest.mark.parametrize("form", ["", "fast", "-1", "uniform:1", "fixed:1:2", "normal:1:2", "nan", "inf"])
def test_unknown_forms_are_refused(form: str) -> None:
    with pytest.raises(ValueError, match="lognormal:MEDIAN:SIGMA"):
        Distribution.parse(form)
    with pytest.raises(ValueError, match="lognormal:MEDIAN:SIGMA"):
        parse_distribution(form)


def hand_in(trainer: Trainer, now: float = 0.0) -> list[int]:
    """Hands in all that may be; returns the numbers."""
    found = []
    while (group := trainer.next_group(now)) is not None:
        found.append(group.number)
    return found


def come_back(trainer: Trainer, *numbers: int, now: float = 1.0) -> None:
    for number in numbers:
        for _ in range(trainer.plan.group_size):
            trainer.take(number, now, "completed", usable=True, tokens=10)


def test_synchronous_training_asks_for_one_batch_at_a_time() -> None:
    trainer = Trainer(Plan(steps=2, groups_per_step=3, group_size=2))
    assert trainer.plan.ahead == 6
    assert hand_in(trainer) == [0, 1, 2]
    come_back(trainer, 2, 0)
    assert not trainer.batch_ready
    come_back(trainer, 1)
    assert trainer.batch_ready
    trainer.use_batch()
    assert hand_in(trainer) == []
    assert trainer.update_due
    trainer.end_step()
    assert trainer.version == 1
    assert hand_in(trainer) == [3, 4, 5]
    assert trainer.all_handed_in
    come_back(trainer, 3, 4, 5)
    trainer.use_batch()
    trainer.end_step()
    assert trainer.staleness == {0: 12}
    assert (trainer.returned, trainer.usable, trainer.lost, trainer.tokens) == (12, 12, 0, 120)


def test_asynchronous_training_uses_what_older_policies_made() -> None:
    trainer = Trainer(Plan(steps=4, groups_per_step=1, group_size=2, lag=2))
    assert trainer.plan.ahead == 6
    assert hand_in(trainer) == [0, 1, 2]  # all with version 0
    come_back(trainer, 1, 2)  # 0 is slow
    for number in (1, 2):
        trainer.use_batch()
        trainer.pausing = True
        assert hand_in(trainer) == []
        trainer.end_step()
        assert hand_in(trainer) == ([3] if number == 1 else [])
    come_back(trainer, 0)
    trainer.use_batch()
    trainer.end_step()
    come_back(trainer, 3)
    trainer.use_batch()
    trainer.end_step()
    # 1 at once, 2 after one update, 0 after two; 3 was handed in with version 1 and used with version 3.
    assert trainer.staleness == {0: 2, 1: 2, 2: 4}


def test_updates_may_be_rarer_than_steps() -> None:
    trainer = Trainer(Plan(steps=4, groups_per_step=1, group_size=1, update_every=2))
    versions = []
    for number in range(4):
        hand_in(trainer)
        come_back(trainer, number)
        trainer.use_batch()
        trainer.end_step()
        versions.append(trainer.version)
    assert versions == [0, 1, 1, 2]


def test_what_is_lost_is_counted_and_holds_no_batch_up() -> None:
    trainer = Trainer(Plan(steps=1, groups_per_step=2, group_size=2))
    hand_in(trainer)
    trainer.refused(0, "SERVER_NOT_FOUND")
    trainer.take(1, 1.0, "completed", usable=True, tokens=5)
    trainer.take(1, 3.0, "timed_out", usable=False, tokens=0)
    assert trainer.batch_ready
    trainer.use_batch()
    assert trainer.staleness == {0: 1}
    assert (trainer.returned, trainer.usable, trainer.lost) == (2, 1, 3)
    assert trainer.failures == {"SERVER_NOT_FOUND": 2, "timed_out": 1}
    assert trainer.outcomes == {"completed": 1, "timed_out": 1}


def test_figures() -> None:
    trainer = Trainer(Plan(steps=1, groups_per_step=1, group_size=4))
    hand_in(trainer, now=10.0)
    for now in (11.0, 12.0, 13.0, 14.0):
        trainer.take(0, now, "completed", usable=True, tokens=100)
    trainer.use_batch()
    trainer.end_step()
    found = document(trainer, Times(waiting=4.0, training=3.0, pausing=1.0), Memory(1 << 20, 2 << 20, 3))
    assert found["rollouts"] == {"planned": 4, "returned": 4, "usable": 4, "lost": 0}
    assert (found["rollouts_per_second"], found["tokens_per_second"]) == (0.5, 50.0)
    assert found["groups_per_second"] == 0.125
    assert found["latency_seconds"] == {"p50": 3.0, "p90": 4.0, "p99": 4.0}
    assert found["idle_ratio"] == 0.5
    assert found["staleness"] == {"mean": 0.0, "p99": 0, "histogram": {"0": 4}}
    shown = dict(lines(found))
    assert shown["peak memory"] == "daemon 1 MiB, 2 hosts 2 MiB"
    assert shown["trainer"].startswith("50.0% idle")
    json.dumps(found)


def test_figures_of_a_run_that_gave_nothing() -> None:
    found = document(Trainer(Plan(steps=1, groups_per_step=1, group_size=1)), Times(), None)
    assert found["rollouts"]["lost"] == 1
    assert found["latency_seconds"]["p50"] is None
    assert found["staleness"]["mean"] is None
    assert dict(lines(found))["staleness"] == "-"


def test_quantiles() -> None:
    assert quantile([], 0.5) is None
    assert [quantile([1.0, 2.0, 3.0, 4.0], part) for part in (0.0, 0.5, 0.99)] == [1.0, 3.0, 4.0]
    assert quantile_of_counts(Counter(), 0.99) is None
    assert quantile_of_counts(Counter({0: 99, 5: 1}), 0.5) == 0
    assert quantile_of_counts(Counter({0: 90, 1: 8, 7: 2}), 0.99) == 7


def test_the_progress_line(capsys: pytest.CaptureFixture[str]) -> None:
    trainer = Trainer(Plan(steps=2, groups_per_step=1, group_size=2))
    hand_in(trainer)
    come_back(trainer, 0)
    trainer.use_batch()
    trainer.end_step()
    hand_in(trainer)
    trainer.take(1, 2.0, "env_failed", usable=False, tokens=0)
    ProgressLine(trainer, Times(waiting=2.5)).show()
    shown = capsys.readouterr().err
    assert shown.startswith("step 1/2, 3/4 rollouts, ")
    assert "waited 2.50 s of" in shown
    assert shown.endswith(", 1 failed\n")


def test_memory_of_a_process_and_of_none() -> None:
    assert os.getpid() in tree(os.getppid())
    assert pss_bytes(os.getpid()) > 1 << 20
    assert tree(1 << 30) == []
    assert pss_bytes(1 << 30) == 0


@pytest.fixture
async def daemon() -> AsyncIterator[FakeDaemon]:
    async with FakeDaemon([server("simple_agent")], default_agent="simple_agent") as one:
        yield one


def write_rows(path: Path, count: int = 3) -> Path:
    row = {"responses_create_params": {"input": "weather?"}}
    path.write_text("".join(json.dumps({"id": number, **row}) + "\n" for number in range(count)))
    return path


SHORT = ("--steps", 2, "--groups-per-step", 2, "--group-size", 3, "--step-time", 0, "--pause", 0)


async def test_rows_on_a_mesh_that_runs(daemon: FakeDaemon, tmp_path: Path) -> None:
    rows, groups = write_rows(tmp_path / "in.jsonl"), {}

    def answer(one: TaskSubmission, index: int) -> Rollout:
        groups[one.group_id] = (json.loads(one.task.fields_json)["id"], one.rollout_count)
        return rollout(one, index)

    daemon.answer = answer
    done = await gymctl("bench", "--address", daemon.address, "--input", rows, *SHORT, "-o", "json")
    assert done.code == 0, done.err
    assert done.json["rollouts"] == {"planned": 12, "returned": 12, "usable": 12, "lost": 0}
    assert done.json["generated_tokens"] == 84
    assert done.json["staleness"]["histogram"] == {"0": 12}
    [session] = daemon.sessions
    assert groups == {"0": (0, 3), "1": (1, 3), "2": (2, 3), "3": (0, 3)}  # from the start again
    assert session.opening.return_tokens


async def test_a_lost_rollout_is_told(daemon: FakeDaemon, tmp_path: Path) -> None:
    broken = error("UPSTREAM_UNAVAILABLE", "no engine")
    daemon.answer = lambda one, index: (
        rollout(one, index, outcome="MODEL_FAILED", failure=broken) if index == 2 else rollout(one, index)
    )
    rows = write_rows(tmp_path / "in.jsonl")
    done = await gymctl("bench", "--address", daemon.address, "--input", rows, *SHORT)
    assert done.code == 1
    assert "8 of 12, 4 lost" in done.out
    assert "model_failed: 4" in done.out


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (("--tokens", "many"), "lognormal:MEDIAN:SIGMA"),
        (("--address", "x:1"), "--input"),
        (("--address", "x:1", "--config", "mcqa", "--input", "in.jsonl"), "exclude each other"),
        (("--input", "in.jsonl"), "--config"),
        (("--config", "mcqa", "--input", "none.jsonl"), "no file none.jsonl"),
    ],
)
async def test_mistakes_are_told_before_anything_starts(
    arguments: tuple[str, ...], hint: str, tmp_path: Path
) -> None:
    done = await gymctl("bench", *arguments, cwd=tmp_path)
    assert done.code in (1, 2)
    assert hint in done.err
