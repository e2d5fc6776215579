"""A rollout's token ids as the flat arrays that trainers want. Needs numpy (`pip install gymd[trainer]`).

A trajectory is a tree of segments that hold what each model call added (rollout.proto). A `Branch` is the
way from a root to a leaf, put together: exactly the ids of its last call, prompt and answer. Most rollouts
have one branch; one that forked has several, and shares segments between them. `branches` marks a shared
segment as sampled in the first branch only, so that no token is trained on twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gymapi.v1.rollout_pb2 import Rollout, TokenSegment, Trajectory

__all__ = ["Batch", "Branch", "branches", "pad", "prompt_and_completion"]

NO_VERSION = -1


@dataclass(frozen=True)
class Branch:
    """One branch. All arrays have one entry for each id."""

    ids: NDArray[np.int32]
    sampled: NDArray[np.bool_]
    """What the policy sampled, and nothing else; train on these."""
    logprobs: NDArray[np.float32]
    """Under the policy that sampled, also where another branch is to train on it; NaN for context, and where
    none were recorded."""
    versions: NDArray[np.int64]
    """Version of the policy that sampled; -1 for context, and where none is known. Not to be written to: one
    number stands for all of them where none is known."""

    @property
    def prompt_length(self) -> int:
        """Ids before the first sampled one; all of them if there is none."""
        return int(self.sampled.argmax()) if self.sampled.any() else len(self.ids)


def branches(source: Rollout | Trajectory) -> list[Branch]:
    """The branches of a rollout, in the order of their last calls; none if it has no token ids.

    Raises:
        ValueError: the trajectory breaks its own rules (a bug of the server that made it).
    """
    segments = list((source.trajectory if isinstance(source, Rollout) else source).segments)
    parents = [segment.parent if segment.HasField("parent") else None for segment in segments]
    for number, parent in enumerate(parents):
        if parent is not None and not 0 <= parent < number:
            raise ValueError(f"segment {number} names segment {parent} as its parent")
    inner = set(parents)
    seen: set[int] = set()
    found = []
    for leaf in range(len(segments)):
        if leaf not in inner:
            way = _way(parents, leaf)
            found.append(_branch(segments, way, seen))
            seen.update(way)
    return found


def _way(parents: Sequence[int | None], leaf: int) -> list[int]:
    """The segments from the root to a leaf."""
    way = [leaf]
    while (parent := parents[way[-1]]) is not None:
        way.append(parent)
    way.reverse()
    return way


def _branch(segments: Sequence[TokenSegment], way: Sequence[int], seen: set[int]) -> Branch:
    # Asking each segment for its arrays would cost more than all that is copied. Merging messages joins their
    # repeated fields, and of the others the last that is set stays.
    joined = TokenSegment()
    for number in way:
        joined.MergeFrom(segments[number])
    kept = _kept(segments, way) if joined.dropped_token_count else None
    room = len(joined.token_ids)
    unknown = np.broadcast_to(np.int64(NO_VERSION), room)
    branch = Branch(
        ids=np.asarray(joined.token_ids, dtype=np.int32),
        sampled=np.zeros(room, dtype=np.bool_),
        logprobs=np.full(room, np.nan, dtype=np.float32),
        versions=unknown.copy() if joined.HasField("policy_version") else unknown,
    )
    _mark(branch, joined, segments, way, seen)
    return branch if kept is None else _select(branch, kept)


def _mark(
    branch: Branch,
    joined: TokenSegment,
    segments: Sequence[TokenSegment],
    way: Sequence[int],
    seen: set[int],
) -> None:
    """Writes what the segments on the way say of their ids, dropped ones included."""
    sampled, logprobs, versions = branch.sampled, branch.logprobs, branch.versions
    all_logprobs = np.asarray(joined.logprobs, dtype=np.float32)
    spans = [(span.start, span.length) for span in joined.sampled_spans]
    versioned = joined.HasField("policy_version")
    at = passed = used = 0
    for number in way:
        segment, new = segments[number], number not in seen
        room, recorded = len(segment.token_ids), len(segment.logprobs)
        own = spans[passed : passed + len(segment.sampled_spans)]
        count = sum([length for _, length in own])
        if recorded not in (0, count):
            raise ValueError(f"segment {number} has {count} sampled ids and {recorded} logprobs")
        version = segment.policy_version if versioned and segment.HasField("policy_version") else None
        for start, length in own:
            if start < 0 or length < 0 or start + length > room:
                raise ValueError(f"segment {number} has {room} ids and a span of {length} from {start}")
            where = slice(at + start, at + start + length)
            sampled[where] = new
            if recorded:
                logprobs[where] = all_logprobs[used : used + length]
                used += length
            if version is not None:
                versions[where] = version
        at, passed = at + room, passed + len(own)


def _kept(segments: Sequence[TokenSegment], way: Sequence[int]) -> NDArray[np.int64]:
    """Which of the ids on the way are in the branch: a segment may drop ids off the end, for its prompt holds
    others in their place."""
    kept = np.empty(0, dtype=np.int64)
    end = 0
    for number in way:
        dropped, added = segments[number].dropped_token_count, len(segments[number].token_ids)
        if not 0 <= dropped <= len(kept):
            raise ValueError(f"a segment drops {dropped} ids of a branch that has {len(kept)}")
        kept = np.concatenate([kept[: len(kept) - dropped], np.arange(end, end + added)])
        end += added
    return kept


def _select(branch: Branch, which: NDArray[np.int64] | slice) -> Branch:
    """Some ids of a branch."""
    return Branch(branch.ids[which], branch.sampled[which], branch.logprobs[which], branch.versions[which])


def prompt_and_completion(branch: Branch) -> dict[str, Any]:
    """A branch in the form of GRPO trainers: the prompt, and everything after it with a mask.

    Returns: `prompt_ids`, `completion_ids`, `completion_mask` (1: sampled; 0: tool output and other context),
        `logprobs` (0.0 where there is none) and `versions`, all but the first of the completion's length.
    """
    start = branch.prompt_length
    return {
        "prompt_ids": branch.ids[:start],
        "completion_ids": branch.ids[start:],
        "completion_mask": branch.sampled[start:].astype(np.int32),
        "logprobs": _numbers(branch.logprobs[start:]),
        "versions": branch.versions[start:],
    }


def _numbers(logprobs: NDArray[np.float32]) -> NDArray[np.float32]:
    """With 0.0 for NaN and the largest numbers for infinite ones, in a fraction of np.nan_to_num's time."""
    limits = np.finfo(np.float32)
    numbers = np.clip(logprobs, limits.min, limits.max)
    np.copyto(numbers, 0.0, where=np.isnan(numbers))
    return numbers


@dataclass(frozen=True)
class Batch:
    """Branches of several rollouts, padded on the right to one length: all arrays have shape (branches,
    length)."""

    ids: NDArray[np.int32]
    attention: NDArray[np.bool_]
    """False where there is only padding."""
    sampled: NDArray[np.bool_]
    logprobs: NDArray[np.float32]
    """0.0 where there is none."""
    versions: NDArray[np.int64]
    rewards: NDArray[np.float64]
    """Of each branch's rollout, shape (branches,); NaN: nobody scored it."""
    rollouts: NDArray[np.int64]
    """Which of the given rollouts each branch belongs to, shape (branches,)."""


def pad(rollouts: Iterable[Rollout], *, pad_id: int = 0, max_length: int | None = None) -> Batch:
    """The branches of a group's rollouts as one batch.

    Args:
        rollouts: with token ids; one without any contributes no row.
        pad_id: fills the ends.
        max_length: ids beyond it are cut from the end of a branch; None: none are.

    Raises:
        ValueError: no rollout has token ids.
    """
    rows: list[tuple[int, float, Branch]] = []
    for number, rollout in enumerate(rollouts):
        reward = rollout.reward.value if rollout.reward.HasField("value") else float("nan")
        for branch in branches(rollout):
            rows.append((number, reward, _select(branch, slice(max_length))))
    if not rows:
        raise ValueError("no rollout has token ids: ask for them with return_tokens=True")
    shape = (len(rows), max(len(branch.ids) for _, _, branch in rows))
    batch = Batch(
        ids=np.full(shape, pad_id, dtype=np.int32),
        attention=np.zeros(shape, dtype=np.bool_),
        sampled=np.zeros(shape, dtype=np.bool_),
        logprobs=np.zeros(shape, dtype=np.float32),
        versions=np.full(shape, NO_VERSION, dtype=np.int64),
        rewards=np.array([reward for _, reward, _ in rows]),
        rollouts=np.array([number for number, _, _ in rows], dtype=np.int64),
    )
    for row, (_, _, branch) in enumerate(rows):
        length = len(branch.ids)
        batch.ids[row, :length] = branch.ids
        batch.attention[row, :length] = True
        batch.sampled[row, :length] = branch.sampled
        batch.logprobs[row, :length] = _numbers(branch.logprobs)
        batch.versions[row, :length] = branch.versions
    return batch
