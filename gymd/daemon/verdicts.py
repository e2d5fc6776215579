"""What a failed call or a returned rollout means: try again, or how it ended."""

from __future__ import annotations

import asyncio
from typing import Literal, NamedTuple

from gymapi.v1.errors_pb2 import ErrorReason, ErrorStatus
from gymapi.v1.rollout_pb2 import FailureClass, Outcome, Rollout, Stage
from gymd.daemon.work import REWARDED_OUTCOMES
from gymd.errors import (
    Aborted,
    Cancelled,
    DeadlineExceeded,
    GymdError,
    InvalidRequest,
    NotFound,
    Unavailable,
    as_gymd_error,
    error,
    to_status_message,
)

__all__ = ["Verdict", "judge_error", "judge_rollout"]

# The replica said no before anything began, so another try costs no attempt.
_REFUSALS = frozenset(("DRAINING", "LIMIT_REACHED", "SERVER_NOT_READY"))
# The model server spent its own retry budget on these before it reported them.
_SPENT = frozenset(
    (ErrorReason.ERROR_REASON_UPSTREAM_UNAVAILABLE, ErrorReason.ERROR_REASON_UPSTREAM_RATE_LIMITED)
)


class Verdict(NamedTuple):
    """What came of one attempt.

    Attributes:
        outcome, failure_class, stage, status: how it ended, if it is not tried again.
        again: "failed": an attempt that counts; "data": the same, by the task's own fault or its verifier's;
            "refused": it never began; None: this is the end.
        unreachable: the replica could not be reached or was lost.
    """

    outcome: int
    failure_class: int = FailureClass.FAILURE_CLASS_INFRA
    stage: int = Stage.STAGE_UNSPECIFIED
    status: ErrorStatus | None = None
    again: Literal["failed", "refused", "data"] | None = None
    unreachable: bool = False


_ENDED = Verdict(Outcome.OUTCOME_COMPLETED)


def judge_error(failure: BaseException) -> Verdict:
    """What a failed RunRollout call means."""
    if isinstance(failure, asyncio.CancelledError):
        failure = error("SESSION_LOST", "the call was cancelled on the way; its process is going away")
    known = failure if isinstance(failure, GymdError) else as_gymd_error(failure, "RunRollout")
    status = to_status_message(known)
    reason = known.reason_name
    if reason in _REFUSALS:
        return Verdict(Outcome.OUTCOME_ENV_FAILED, stage=Stage.STAGE_QUEUE, status=status, again="refused")
    if reason.startswith("UPSTREAM_"):
        again: Literal["failed"] | None = "failed" if isinstance(known, Unavailable) else None
        return Verdict(Outcome.OUTCOME_MODEL_FAILED, stage=Stage.STAGE_MODEL, status=status, again=again)
    if isinstance(known, (Unavailable, Aborted, NotFound, Cancelled)):
        return Verdict(
            Outcome.OUTCOME_ENV_FAILED,
            stage=Stage.STAGE_TRANSPORT,
            status=status,
            again="failed",
            unreachable=reason == "PEER_UNREACHABLE",
        )
    if isinstance(known, DeadlineExceeded):
        return Verdict(Outcome.OUTCOME_TIMED_OUT, FailureClass.FAILURE_CLASS_CLIENT, status=status)
    if isinstance(known, InvalidRequest):
        outcome, kind = Outcome.OUTCOME_INVALID_TASK, FailureClass.FAILURE_CLASS_DATA
        return Verdict(outcome, kind, status=status, again="data")
    return Verdict(Outcome.OUTCOME_ENV_FAILED, stage=Stage.STAGE_AGENT, status=status)


def judge_rollout(rollout: Rollout) -> Verdict:
    """What a returned rollout means; mends one that breaks the contract, so that clients need not check."""
    outcome = rollout.outcome
    if outcome == Outcome.OUTCOME_UNSPECIFIED:
        text = "the agent returned a rollout without an outcome; fix the agent server"
        status = to_status_message(error("SERVER_CODE_FAILED", text, field="outcome"))
        rollout.ClearField("reward")
        rollout.outcome = Outcome.OUTCOME_ENV_FAILED
        rollout.failure.status.CopyFrom(status)
        rollout.failure.failure_class = FailureClass.FAILURE_CLASS_INFRA
        rollout.failure.stage = Stage.STAGE_AGENT
        return _ENDED
    if outcome in REWARDED_OUTCOMES:
        return _ENDED
    if rollout.HasField("reward"):
        rollout.ClearField("reward")  # nobody scored what failed
    failure = rollout.failure
    infra = failure.failure_class == FailureClass.FAILURE_CLASS_INFRA
    # Another attempt is a new session, so it is safe whatever the lost process was doing.
    if failure.retriable and infra and failure.status.reason not in _SPENT:
        return Verdict(outcome, failure.failure_class, failure.stage, failure.status, again="failed")
    if failure.failure_class == FailureClass.FAILURE_CLASS_DATA or outcome == Outcome.OUTCOME_VERIFY_FAILED:
        return Verdict(outcome, failure.failure_class, failure.stage, failure.status, again="data")
    return _ENDED
