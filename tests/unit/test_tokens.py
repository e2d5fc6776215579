"""Token trees: what the recorder makes of model calls, and the flat arrays that come out of it."""

import random
from collections.abc import Sequence

import numpy as np
import pytest

from gymapi.v1.responses_pb2 import Response, SamplingParams
from gymapi.v1.rollout_pb2 import (
    DRIFT_CLEAN,
    DRIFT_FORKED,
    DRIFT_REALIGNED,
    Rollout,
    TokenSegment,
    TokenSpan,
    Trajectory,
)
from gymd.client.tokens import Branch, branches, pad, prompt_and_completion
from gymd.sdk.tokens import REALIGN_LIMIT, TokenRecorder

Call = tuple[Sequence[int], Sequence[int]]
Entry = tuple[int, bool, float | None, int]
"""Of an id: itself, whether it is new and sampled, its logprob, its version."""


def answer(prompt: Sequence[int], sampled: Sequence[int]) -> Response:
    response = Response()
    trace = response.output.add().token_trace
    trace.prompt_token_ids.extend(prompt)
    trace.generation_token_ids.extend(sampled)
    trace.generation_logprobs.extend(-0.25 * (number + 1) for number in range(len(sampled)))
    return response


def record(*calls: Call) -> Trajectory:
    recorder = TokenRecorder()
    for number, (prompt, sampled) in enumerate(calls):
        recorder.add(answer(prompt, sampled), number)
    assert recorder.trajectory is not None
    return recorder.trajectory


def drifts(trajectory: Trajectory) -> list[int]:
    return [segment.drift for segment in trajectory.segments]


def test_calls_that_go_on_are_one_branch() -> None:
    trajectory = record(([1, 2], [3, 4]), ([1, 2, 3, 4, 9], [5]), ([1, 2, 3, 4, 9, 5, 9, 9], [6, 7]))
    assert drifts(trajectory) == [DRIFT_CLEAN] * 3
    added = [list(segment.token_ids) for segment in trajectory.segments]
    assert added == [[1, 2, 3, 4], [9, 5], [9, 9, 6, 7]]
    [branch] = branches(trajectory)
    assert branch.ids.tolist() == [1, 2, 3, 4, 9, 5, 9, 9, 6, 7]
    assert branch.sampled.tolist() == [False, False, True, True, False, True, False, False, True, True]
    assert branch.prompt_length == 2
    assert branch.logprobs[branch.sampled].tolist() == [-0.25, -0.5, -0.25, -0.25, -0.5]
    assert np.isnan(branch.logprobs[~branch.sampled]).all()


def test_segments_say_how_their_own_call_was_sampled() -> None:
    recorder = TokenRecorder()
    told = SamplingParams(
        top_k=-1,
        min_p=0.25,
        repetition_penalty=1.5,
        presence_penalty=-0.5,
        frequency_penalty=0.75,
        seed=2**62,
    )
    first, second = answer([1, 2], [3, 4]), answer([1, 2, 3, 8], [5])
    first.temperature, first.top_p = 0.0, 1.0
    first.output[-1].token_trace.sampling.CopyFrom(told)
    recorder.add(first, 0)
    recorder.add(second, 1)
    assert recorder.trajectory is not None
    one, other = recorder.trajectory.segments
    assert (one.temperature, one.top_p, one.sampling) == (0.0, 1.0, told)
    assert [other.HasField(name) for name in ("temperature", "top_p", "sampling")] == [False] * 3
    # The tree, and how it reads, is that of the same calls of which nothing is known.
    silent = record(([1, 2], [3, 4]), ([1, 2, 3, 8], [5]))
    assert drifts(recorder.trajectory) == drifts(silent) == [DRIFT_CLEAN, DRIFT_REALIGNED]
    assert [entries_of(branch) for branch in branches(recorder.trajectory)] == read_one_by_one(silent)
    assert recorder.trajectory.ByteSize() - silent.ByteSize() < 80


def test_an_answer_that_the_template_wrote_otherwise_is_realigned() -> None:
    trajectory = record(([1, 2], [3, 4, 5]), ([1, 2, 3, 8, 9], [6]))
    assert drifts(trajectory) == [DRIFT_CLEAN, DRIFT_REALIGNED]
    assert trajectory.segments[1].dropped_token_count == 2
    [branch] = branches(trajectory)
    assert branch.ids.tolist() == [1, 2, 3, 8, 9, 6]
    # What was replaced is context now: nobody sampled 8 and 9.
    assert branch.sampled.tolist() == [False, False, True, False, False, True]


def test_too_much_of_an_answer_changed() -> None:
    long = list(range(10, 10 + REALIGN_LIMIT + 1))
    trajectory = record(([1], long), ([1, 5], [6]))
    assert drifts(trajectory) == [DRIFT_CLEAN, DRIFT_FORKED]
    assert [branch.ids.tolist() for branch in branches(trajectory)] == [[1, *long], [1, 5, 6]]


def test_a_branch_may_continue_any_earlier_call() -> None:
    trajectory = record(
        ([1, 2], [3]),
        ([1, 2, 3, 4], [5]),
        ([1, 2, 3, 7], [8]),  # a second try from the first answer
        ([1, 2, 3, 4, 5, 6], [9]),  # and the first try goes on
    )
    assert [segment.parent for segment in trajectory.segments] == [0, 0, 0, 1]
    assert drifts(trajectory) == [DRIFT_CLEAN] * 4
    second, first = branches(trajectory)
    assert (second.ids.tolist(), first.ids.tolist()) == ([1, 2, 3, 7, 8], [1, 2, 3, 4, 5, 6, 9])
    # The shared answer is trained on once.
    assert (second.ids[second.sampled].tolist(), first.ids[first.sampled].tolist()) == ([3, 8], [5, 9])


def test_every_answer_to_a_prompt_that_is_asked_several_times_is_a_leaf() -> None:
    trajectory = record(
        ([1, 2], [3]),
        ([1, 2], [4, 5]),  # the best of two
        ([1, 2, 4, 5, 6], [7]),
        ([1, 2, 4, 5, 6], [8]),  # and again, behind the second
        ([1, 2, 4, 5, 6, 8, 9], [2]),
    )
    parents = [segment.parent if segment.HasField("parent") else None for segment in trajectory.segments]
    assert parents == [None, None, 1, 1, 3]
    assert drifts(trajectory) == [DRIFT_CLEAN, DRIFT_FORKED, *[DRIFT_CLEAN] * 3]
    assert trajectory.segments[1].shared_token_count == 2
    sampled = [branch.ids[branch.sampled].tolist() for branch in branches(trajectory)]
    assert sampled == [[3], [4, 5, 7], [8, 2]]  # each once


def test_a_sub_agent_has_a_branch_of_its_own_and_the_agent_goes_on() -> None:
    trajectory = record(
        ([1, 2], [3]),
        ([7, 7], [8]),  # the sub-agent, with a conversation of its own
        ([7, 7, 8, 9], [8]),
        ([1, 2, 3, 6], [5]),  # the agent, with what the sub-agent found
    )
    parents = [segment.parent if segment.HasField("parent") else None for segment in trajectory.segments]
    assert parents == [None, None, 1, 0]
    assert drifts(trajectory) == [DRIFT_CLEAN, DRIFT_FORKED, DRIFT_CLEAN, DRIFT_CLEAN]
    assert [segment.shared_token_count for segment in trajectory.segments] == [0] * 4
    found = sorted(branch.ids.tolist() for branch in branches(trajectory))
    assert found == [[1, 2, 3, 6, 5], [7, 7, 8, 9, 8]]


@pytest.mark.parametrize("seed", range(4))
def test_any_calls_come_back_exactly(seed: int) -> None:
    """Invariant: the ids along a branch are those of its last call, whatever the agent did."""
    rng = random.Random(seed)
    recorder, calls = TokenRecorder(), list[list[int]]()
    for number in range(100):
        prompt = [rng.randrange(4) for _ in range(3)]
        if calls and rng.random() > 0.1:
            prompt = list(rng.choice(calls))
        if rng.random() < 0.3:
            del prompt[len(prompt) - rng.randrange(min(3, len(prompt))) :]
        prompt += [rng.randrange(4) for _ in range(rng.randrange(4))]
        sampled = [rng.randrange(4) for _ in range(rng.randrange(5))]
        calls.append(prompt + sampled)
        recorder.add(answer(prompt, sampled), number)
        trajectory = recorder.trajectory
        assert trajectory is not None
        assert branches(trajectory)[-1].ids.tolist() == prompt + sampled
        segment = trajectory.segments[-1]
        assert sum(span.length for span in segment.sampled_spans) == len(segment.logprobs) == len(sampled)
    assert len(set(drifts(trajectory))) == 3


def rollout(reward: float | None, *calls: Call, version: int | None = None) -> Rollout:
    made = Rollout(trajectory=record(*calls))
    if reward is not None:
        made.reward.value = reward
    if version is not None:
        for segment in made.trajectory.segments:
            segment.policy_version = version
    return made


def test_a_group_is_padded() -> None:
    group = [rollout(1.0, ([1, 2], [3]), version=4), Rollout(), rollout(None, ([5], [6, 7, 8]))]
    batch = pad(group, pad_id=99)
    assert batch.ids.tolist() == [[1, 2, 3, 99], [5, 6, 7, 8]]
    assert batch.attention.tolist() == [[True, True, True, False], [True] * 4]
    assert batch.sampled.sum(axis=1).tolist() == [1, 3]
    assert batch.versions.tolist() == [[-1, -1, 4, -1], [-1] * 4]
    assert batch.rewards[0] == 1.0
    assert np.isnan(batch.rewards[1])
    assert batch.rollouts.tolist() == [0, 2]
    assert pad([rollout(1.0, ([1, 2], [3]))], max_length=2).ids.tolist() == [[1, 2]]
    with pytest.raises(ValueError, match="return_tokens"):
        pad([Rollout()])


def test_the_form_of_grpo_trainers() -> None:
    [branch] = branches(rollout(1.0, ([1, 2], [3]), ([1, 2, 3, 9], [4]), version=1))
    form = {name: values.tolist() for name, values in prompt_and_completion(branch).items()}
    assert form == {
        "prompt_ids": [1, 2],
        "completion_ids": [3, 9, 4],
        "completion_mask": [1, 0, 1],
        "logprobs": [-0.25, 0.0, -0.25],
        "versions": [1, -1, 1],
    }


def test_a_broken_trajectory_is_told() -> None:
    trajectory = record(([1], [2]))
    trajectory.segments[0].parent = 0
    with pytest.raises(ValueError, match="names segment 0 as its parent"):
        branches(trajectory)
    trajectory = record(([1], [2]))
    trajectory.segments[0].sampled_spans.append(TokenSpan(start=0, length=1))
    with pytest.raises(ValueError, match="2 sampled ids and 1 logprobs"):
        branches(trajectory)
    trajectory = record(([1], [2]))
    trajectory.segments[0].sampled_spans[0].start = 2
    with pytest.raises(ValueError, match="has 2 ids and a span of 1 from 2"):
        branches(trajectory)
    trajectory.segments[0].dropped_token_count = 1
    with pytest.raises(ValueError, match="drops 1 ids of a branch that has 0"):
        branches(trajectory)


def test_versions_of_what_was_replaced_are_unknown() -> None:
    made = rollout(1.0, ([1, 2], [3, 4, 5]), ([1, 2, 3, 8, 9], [6]), version=4)
    [branch] = branches(made)
    assert branch.versions.tolist() == [-1, -1, 4, -1, -1, 4]
    [branch] = branches(rollout(1.0, ([1, 2], [3, 4, 5]), ([1, 2, 3, 8, 9], [6])))
    assert branch.versions.tolist() == [-1] * 6


def random_segment(rng: random.Random, parents: int, room: list[int]) -> TokenSegment:
    """A segment after `parents` others, whose branches hold `room` ids."""
    segment = TokenSegment(token_ids=[rng.randrange(100) for _ in range(rng.choice((0, 1, 5)))])
    if parents and rng.random() < 0.9:
        segment.parent = rng.randrange(parents)
        if rng.random() < 0.4:
            segment.dropped_token_count = rng.randint(0, room[segment.parent])
    cuts = sorted(rng.randint(0, len(segment.token_ids)) for _ in range(2 * rng.randrange(3)))
    for start, end in zip(cuts[::2], cuts[1::2], strict=True):
        segment.sampled_spans.append(TokenSpan(start=start, length=end - start))
    if rng.random() < 0.7:
        count = sum(span.length for span in segment.sampled_spans)
        segment.logprobs.extend(-rng.randint(1, 64) / 8 for _ in range(count))
    if rng.random() < 0.5:
        segment.policy_version = rng.randrange(3)
    return segment


def one_by_one(segment: TokenSegment, before: list[Entry], new: bool) -> list[Entry]:
    """What follows from a segment and its parent's branch, read id by id from the contract."""
    entries = before[: len(before) - segment.dropped_token_count]
    logprobs = iter(segment.logprobs)
    version = segment.policy_version if segment.HasField("policy_version") else -1
    spans = [range(span.start, span.start + span.length) for span in segment.sampled_spans]
    for place, token in enumerate(segment.token_ids):
        if any(place in span for span in spans):
            entries.append((token, new, next(logprobs, None), version))
        else:
            entries.append((token, False, None, -1))
    return entries


def test_any_tree_reads_as_its_segments_say() -> None:
    """Forks, drops over several segments, segments without ids, spans or logprobs, some with a version."""
    rng = random.Random(3)
    for _ in range(150):
        trajectory, rooms = Trajectory(), list[int]()
        for number in range(rng.randint(1, 8)):
            segment = random_segment(rng, number, rooms)
            before = rooms[segment.parent] if segment.HasField("parent") else 0
            rooms.append(before - segment.dropped_token_count + len(segment.token_ids))
            trajectory.segments.append(segment)
        found = branches(trajectory)
        assert [entries_of(branch) for branch in found] == read_one_by_one(trajectory)
        assert all(branch.versions.dtype == np.int64 for branch in found)


def read_one_by_one(trajectory: Trajectory) -> list[list[Entry]]:
    segments = trajectory.segments
    inner = {segment.parent for segment in segments if segment.HasField("parent")}
    seen: set[int] = set()
    read = []
    for leaf in range(len(segments)):
        if leaf in inner:
            continue
        way = [leaf]
        while segments[way[0]].HasField("parent"):
            way.insert(0, segments[way[0]].parent)
        entries: list[Entry] = []
        for number in way:
            entries = one_by_one(segments[number], entries, number not in seen)
        seen.update(way)
        read.append(entries)
    return read


def entries_of(branch: Branch) -> list[Entry]:
    logprobs = [None if np.isnan(value) else value for value in branch.logprobs.tolist()]
    columns = (branch.ids.tolist(), branch.sampled.tolist(), logprobs, branch.versions.tolist())
    return list(zip(*columns, strict=True))


def test_a_segment_without_ids_and_ids_without_logprobs() -> None:
    trajectory = Trajectory()
    assert branches(trajectory) == []
    trajectory.segments.add()
    [branch] = branches(trajectory)
    assert (branch.ids.tolist(), branch.prompt_length) == ([], 0)
    bare = trajectory.segments.add(token_ids=[4, 5], parent=0)
    bare.sampled_spans.add(start=1, length=1)
    [branch] = branches(trajectory)
    assert branch.sampled.tolist() == [False, True]
    assert np.isnan(branch.logprobs).all()
    form = prompt_and_completion(branch)
    assert (form["completion_ids"].tolist(), form["logprobs"].tolist()) == ([5], [0.0])


def test_infinite_logprobs_become_numbers() -> None:
    trajectory = record(([1], [2, 3, 4]))
    trajectory.segments[0].logprobs[:] = [float("-inf"), float("nan"), float("inf")]
    logprobs = prompt_and_completion(branches(trajectory)[0])["logprobs"]
    assert logprobs.tolist() == [np.finfo(np.float32).min, 0.0, np.finfo(np.float32).max]
