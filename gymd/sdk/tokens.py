"""Records the token ids of an agent's model calls as a tree of delta segments (rollout.proto, Trajectory).

Ids stay the bytes they travel in (4 per id, little-endian): prefixes are compared by memcmp and a segment is
put together on the wire. 32,768 ids cost tens of microseconds that way, against milliseconds as Python
integers.
"""

from __future__ import annotations

from gymapi.v1.responses_pb2 import Response
from gymapi.v1.rollout_pb2 import Drift, TokenSegment, Trajectory
from gymd.convert.wire import delimited, delimited_fields

__all__ = ["REALIGN_LIMIT", "TokenRecorder"]

REALIGN_LIMIT = 1024
"""Ids at the end of a model call's answer that the next prompt may hold otherwise and still continue it."""

ID_BYTES = 4
_PROMPT, _SAMPLED, _LOGPROBS = 1, 2, 3  # fields of TokenTrace
_SEGMENT_IDS, _SEGMENT_LOGPROBS = 2, 4  # fields of TokenSegment


class _Node:
    """One segment; positions are bytes from the root of its branch.

    Attributes:
        ids: what it adds.
        start, end: where that lies on the branch.
        sampled: where the sampled part begins.
    """

    __slots__ = ("children", "end", "ids", "index", "sampled", "start")

    def __init__(self, index: int, start: int, added: bytes, sampled: bytes) -> None:
        self.index = index
        self.ids = added + sampled
        self.start = start
        self.sampled = start + len(added)
        self.end = start + len(self.ids)
        self.children: list[_Node] = []


class TokenRecorder:
    """Turns the full prompts of successive model calls into segments that hold what each adds.

    A prompt that begins with all ids of an earlier call continues that call (CLEAN), whichever it was: agents
    branch, and go back. One that differs from the end of a call's answer in at most REALIGN_LIMIT ids
    replaces those ids (REALIGNED): the engine's chat template wrote the answer otherwise. Any other stands
    whole, as a root of its own (FORKED, unless it is the first); so does the prompt of an earlier call that
    is asked once more, unless it continues what that call continued: both answers are leaves.
    """

    def __init__(self) -> None:
        self.trajectory: Trajectory | None = None
        self._roots: list[_Node] = []
        self._count = 0

    def add(self, response: Response, first_item: int) -> None:
        """Takes the token trace of a model call; `first_item`: index of its first item."""
        trace = response.output[-1].token_trace if response.output else None
        if trace is None or not trace.prompt_token_ids:
            return
        fields = dict(delimited_fields(trace.SerializeToString()))
        prompt, sampled = fields.get(_PROMPT, b""), fields.get(_SAMPLED, b"")
        if self.trajectory is None:
            self.trajectory = Trajectory()
        segment = self.trajectory.segments.add()
        parent, at, shared = self._continued(prompt)
        added = prompt[at:]
        node = _Node(self._count, at, added, sampled)
        self._count += 1
        if parent is None:
            segment.drift = Drift.DRIFT_FORKED if self._roots else Drift.DRIFT_CLEAN
            segment.shared_token_count = shared // ID_BYTES
            self._roots.append(node)
        else:
            segment.parent = parent.index
            segment.drift = Drift.DRIFT_REALIGNED if at < parent.end else Drift.DRIFT_CLEAN
            segment.dropped_token_count = (parent.end - at) // ID_BYTES
            parent.children.append(node)
        _fill(segment, added, sampled, fields.get(_LOGPROBS, b""))
        if trace.HasField("policy_version"):
            segment.policy_version = trace.policy_version
        if trace.HasField("sampling"):
            segment.sampling.CopyFrom(trace.sampling)
        if response.HasField("temperature"):
            segment.temperature = response.temperature
        if response.HasField("top_p"):
            segment.top_p = response.top_p
        segment.finish_reason = response.incomplete_details.reason or "stop"
        segment.item_indices.extend(range(first_item, first_item + len(response.output)))

    def _continued(self, prompt: bytes) -> tuple[_Node | None, int, int]:
        """The segment that a prompt continues, and from which byte of the prompt on; (None, 0): none.

        The last is how many of its bytes begin some branch.
        """
        whole: tuple[_Node | None, int] = (None, 0)
        partly: tuple[_Node | None, int] = (None, 0)
        shared = 0
        waiting = [(root, 0) for root in self._roots]
        while waiting:
            node, start = waiting.pop()
            matched = start + _common(node.ids, prompt[start : start + len(node.ids)])
            shared = max(shared, matched)
            if matched == node.end and matched >= whole[1]:
                whole = (node, matched)
            elif (
                matched >= node.sampled
                and len(prompt) > node.sampled  # else the very prompt of that call is asked once more
                and node.end - matched <= REALIGN_LIMIT * ID_BYTES
            ):
                partly = max(partly, (node, matched), key=lambda found: found[1])
            waiting += [(child, child.start) for child in node.children if child.start <= matched]
        return (*(partly if partly[1] > whole[1] else whole), shared)


def _common(one: bytes, other: bytes) -> int:
    """Length of the common prefix, in bytes of whole ids."""
    if one == other:
        return len(one)
    low, high = 0, min(len(one), len(other)) // ID_BYTES
    while low < high:
        middle = (low + high + 1) // 2
        if one[low * ID_BYTES : middle * ID_BYTES] == other[low * ID_BYTES : middle * ID_BYTES]:
            low = middle
        else:
            high = middle - 1
    return low * ID_BYTES


def _fill(segment: TokenSegment, added: bytes, sampled: bytes, logprobs: bytes) -> None:
    """Sets ids, spans and logprobs; packed fields are written as their wire bytes."""
    segment.MergeFromString(delimited(_SEGMENT_IDS, added, sampled) + delimited(_SEGMENT_LOGPROBS, logprobs))
    if sampled:
        segment.sampled_spans.add(start=len(added) // ID_BYTES, length=len(sampled) // ID_BYTES)
