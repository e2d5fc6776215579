"""Records the token ids of an agent's model calls as delta segments (rollout.proto, Trajectory)."""

from __future__ import annotations

from gymapi.v1.responses_pb2 import Response
from gymapi.v1.rollout_pb2 import Drift, Trajectory

__all__ = ["TokenRecorder"]


class TokenRecorder:
    """Turns the full prompts of successive model calls into a branch of segments that hold what each adds."""

    def __init__(self) -> None:
        self.trajectory: Trajectory | None = None
        self._branch: list[int] = []

    def add(self, response: Response, first_item: int) -> None:
        """Takes the token trace of a model call; `first_item`: index of its first item."""
        trace = response.output[-1].token_trace if response.output else None
        if trace is None or not trace.prompt_token_ids:
            return
        if self.trajectory is None:
            self.trajectory = Trajectory()
        prompt, sampled = list(trace.prompt_token_ids), list(trace.generation_token_ids)
        segments = self.trajectory.segments
        parent = len(segments) - 1
        segment = segments.add()
        if parent < 0:
            segment.drift = Drift.DRIFT_CLEAN
            added = prompt
        elif prompt[: len(self._branch)] == self._branch:
            segment.parent = parent
            segment.drift = Drift.DRIFT_CLEAN
            added = prompt[len(self._branch) :]
        else:
            # The prompt does not continue the branch, so it stands whole, as a root of its own.
            segment.drift = Drift.DRIFT_FORKED
            added = prompt
        segment.token_ids.extend(added)
        segment.token_ids.extend(sampled)
        if sampled:
            segment.sampled_spans.add(start=len(added), length=len(sampled))
        segment.logprobs.extend(trace.generation_logprobs)
        if response.HasField("temperature"):
            segment.temperature = response.temperature
        if response.HasField("top_p"):
            segment.top_p = response.top_p
        segment.finish_reason = response.incomplete_details.reason or "stop"
        segment.item_indices.extend(range(first_item, first_item + len(response.output)))
        self._branch = prompt + sampled
