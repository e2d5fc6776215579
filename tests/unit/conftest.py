"""Shared by the unit tests."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gymd.daemon.journal import Journal


@pytest.fixture
async def journal(tmp_path: Path) -> AsyncIterator[Journal]:
    """A journal in a folder of its own."""
    opened = Journal(tmp_path, max_bytes=1 << 30)
    opened.load()
    yield opened
    await opened.close()
