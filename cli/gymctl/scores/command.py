"""`gymctl rollouts reverify` from beginning to end."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from gymctl.collect.command import address_for
from gymctl.collect.files import Paths
from gymctl.options import Settings
from gymctl.progress import ProgressLine
from gymctl.scores.reverify import Outputs, Reverified, reverify
from gymd.client import RolloutClient

__all__ = ["reverify_command"]


def reverify_command(
    settings: Settings,
    files: Sequence[Path],
    target: Path,
    *,
    source: Path | None,
    concurrency: int,
    timeout: float,
    configs: tuple[str, ...],
) -> Reverified:
    """Finds or starts the daemon, verifies, and shows how far it is."""
    outputs = Outputs(target, Paths(target).failures)
    progress = ProgressLine()
    with ExitStack() as stack:
        address = address_for(settings, configs, stack)

        async def run() -> Reverified:
            async with RolloutClient(address, client_name="gymctl") as client:
                return await reverify(
                    client,
                    files,
                    outputs,
                    rows=source,
                    concurrency=concurrency,
                    timeout=timeout,
                    tell=lambda result: progress.tell(lambda _: _text(result)),
                )

        try:
            return asyncio.run(run())
        finally:
            progress.clear()


def _text(result: Reverified) -> str:
    return f"verified {result.lines:,}, changed {result.changed:,}, failed {result.failed:,}"
