"""The allocator's settings."""

import platform

import pytest

from gymd.memory import keep_large_blocks


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has these settings")
def test_glibc_takes_the_settings() -> None:
    assert keep_large_blocks()


def test_other_c_libraries_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ctypes.CDLL", lambda name: object())
    assert not keep_large_blocks()
