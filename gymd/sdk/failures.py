"""Which outcome and failure an error inside a rollout becomes."""

from __future__ import annotations

from gymapi.v1.rollout_pb2 import Failure, FailureClass, Outcome, Stage
from gymd.errors import GymdError, to_status_message

__all__ = ["describe"]

BODY_CHARS = 2_000

_OUTCOME_OF_STAGE = {
    Stage.STAGE_MODEL: Outcome.OUTCOME_MODEL_FAILED,
    Stage.STAGE_VERIFY: Outcome.OUTCOME_VERIFY_FAILED,
}
_DATA_REASONS = {"INVALID_REQUEST", "UPSTREAM_REJECTED"}
# Trying the same rollout again may help: the machine, process or endpoint was at fault, for now.
_RETRIABLE = {
    "PEER_UNREACHABLE",
    "SESSION_LOST",
    "SESSION_NOT_FOUND",
    "SERVER_NOT_READY",
    "DRAINING",
    "LIMIT_REACHED",
    "UPSTREAM_UNAVAILABLE",
    "UPSTREAM_RATE_LIMITED",
}


def describe(failure: GymdError, stage: int) -> tuple[int, Failure]:
    """The outcome of a rollout that failed in `stage`, and the Failure to report."""
    reason = failure.reason_name
    message = Failure(
        failure_class=FailureClass.FAILURE_CLASS_INFRA,
        stage=stage,  # type: ignore[arg-type]
        status=to_status_message(failure),
        retriable=reason in _RETRIABLE,
        upstream_body=failure.metadata.get("upstream_body", "")[:BODY_CHARS],
    )
    if failure.metadata.get("upstream_status", "").isdigit():
        message.upstream_status = int(failure.metadata["upstream_status"])
    outcome = _OUTCOME_OF_STAGE.get(stage, Outcome.OUTCOME_ENV_FAILED)  # type: ignore[call-overload]
    if reason == "DEADLINE_EXCEEDED":
        outcome = Outcome.OUTCOME_TIMED_OUT
    elif reason in _DATA_REASONS:
        message.failure_class = FailureClass.FAILURE_CLASS_DATA
        if stage in (Stage.STAGE_SEED, Stage.STAGE_VERIFY):
            outcome = Outcome.OUTCOME_INVALID_TASK
    return outcome, message
