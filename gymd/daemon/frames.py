"""The daemon's frames about a session as a whole: opened, progress, summary."""

from __future__ import annotations

from gymapi.v1.rollout_service_pb2 import GrantCredits, OpenSession, Progress, SessionOpened, SessionSummary
from gymd.daemon.admission import SessionLimits
from gymd.daemon.groups import outcome_counts
from gymd.daemon.lanes import Client
from gymd.daemon.ledger import Ledger

__all__ = ["FEATURES", "fill_opened", "fill_progress", "fill_summary", "first_grant"]

FEATURES = (
    "byte_credits",
    "cancel_numbers",
    "cancel_scopes",
    "chunks",
    "group_credits",
    "groups",
    "partial_cancel",
    "policy_versions",
    "resume",
    "retries",
    "shares",
    "trainer_policy",
)
"""What this daemon can do beyond the base protocol."""


def fill_opened(
    opened: SessionOpened,
    ledger: Ledger,
    client: Client,
    limits: SessionLimits,
    *,
    interval_s: float,
    window_s: float,
    task_ids: list[str] | None,
) -> None:
    """How the session stands when a stream begins.

    Args:
        interval_s: longest silence.
        window_s: how long it outlives a broken stream.
        task_ids: what is known of a session that is resumed; None: it is new.
    """
    opened.progress_interval.FromNanoseconds(int(interval_s * 1e9))
    opened.max_running_rollouts = limits.max_running
    opened.max_message_bytes = limits.max_message_bytes
    opened.features.extend(FEATURES)
    opened.daemon_version = limits.version
    if window_s:
        opened.resume_window.FromNanoseconds(int(window_s * 1e9))
        opened.durable = ledger.durable
    opened.granted_rollouts = ledger.granted
    opened.used_rollouts = ledger.used
    opened.last_sequence = ledger.results.last_sequence
    opened.granted_groups = ledger.granted_groups
    opened.used_groups = ledger.used_groups
    opened.granted_bytes = ledger.results.granted_bytes
    opened.sent_bytes = ledger.results.sent_bytes
    if client.version is not None:
        opened.policy_version = client.version
    opened.policy_paused = client.held
    opened.last_cancel_number = ledger.cancels.last
    if task_ids is not None:
        opened.resumed = True
        opened.task_ids.extend(task_ids)


def fill_progress(progress: Progress, ledger: Ledger, client: Client) -> None:
    """How far things are."""
    progress.last_sequence = ledger.results.last_sequence
    progress.queued_count = client.queued
    progress.running_count = client.running
    progress.done_count = ledger.ended
    progress.acked_sequence = ledger.acked
    progress.waiting_result_bytes = ledger.results.waiting_bytes
    if ledger.trouble is not None:
        progress.condition = ledger.trouble.message


def fill_summary(summary: SessionSummary, ledger: Ledger) -> None:
    """What became of everything."""
    summary.accepted_task_count = ledger.accepted
    summary.rejected_task_count = ledger.rejected
    summary.result_count = ledger.results.last_sequence
    summary.outcome_counts.extend(outcome_counts(ledger.results.outcomes))
    summary.retried_count = ledger.retried


def first_grant(opening: OpenSession) -> GrantCredits:
    """What a session is granted when it opens."""
    return GrantCredits(
        granted_rollouts=opening.granted_rollouts,
        granted_groups=opening.granted_groups,
        granted_bytes=opening.granted_bytes,
    )
