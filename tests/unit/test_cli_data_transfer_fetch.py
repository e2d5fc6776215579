"""Fetching a file: what a store gives little about, and what goes wrong on this side."""

from __future__ import annotations

import errno
import fcntl
import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from gymctl.errors import CliError
from gymctl.transfer import fetch as module
from gymctl.transfer.fetch import Checksum, HttpFailure, Remote, Unreachable, fetch
from tests.fakes.hub import serving

DATA = bytes(range(256)) * 40
SHA256 = Checksum("sha256", hashlib.sha256(DATA).hexdigest())


class Store:
    """Serves one file in the way that a test wants."""

    def __init__(self) -> None:
        self.etag = ""
        self.cut_after: list[int] = []
        self.answers: list[web.Response] = []
        self.seen: list[dict[str, str]] = []
        self.wrong_range = False
        self.url = ""

    async def file(self, request: web.Request) -> web.StreamResponse:
        self.seen.append(
            {name: request.headers[name] for name in ("Range", "If-Range") if name in request.headers}
        )
        if self.answers:
            return self.answers.pop(0)
        headers = {"ETag": self.etag} if self.etag else {}
        start = int(request.headers.get("Range", "bytes=0-")[6:-1])
        if start and request.headers.get("If-Range", self.etag) != self.etag:
            start = 0
        if start:
            headers["Content-Range"] = f"bytes {start - self.wrong_range}-{len(DATA) - 1}/{len(DATA)}"
        response = web.StreamResponse(status=206 if start else 200, headers=headers)
        response.content_length = len(DATA) - start
        await response.prepare(request)
        if self.cut_after:
            await response.write(DATA[start : start + self.cut_after.pop(0)])
            assert request.transport is not None
            request.transport.close()
            return response
        await response.write(DATA[start:])
        return response


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    monkeypatch.setattr(module, "_BACKOFF_S", 0.001)
    store = Store()
    app = web.Application()
    app.add_routes([web.get("/file", store.file)])
    with serving(app) as (host,):
        store.url = f"{host}/file"
        yield store


def remote(store: Store, **more: Any) -> Remote:
    return Remote(url=store.url, name="file", **more)


def left(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


async def test_without_a_size_or_a_checksum(store: Store, tmp_path: Path) -> None:
    size, digest = await fetch(remote(store), tmp_path / "deep" / "file")
    assert (size, digest) == (len(DATA), SHA256.value)
    assert left(tmp_path / "deep") == ["file"]


async def test_without_a_checksum_the_servers_tag_joins_the_parts(store: Store, tmp_path: Path) -> None:
    store.etag, store.cut_after = '"v1"', [1000]
    await fetch(remote(store), tmp_path / "file")
    assert store.seen == [{}, {"Range": "bytes=1000-", "If-Range": '"v1"'}]
    assert (tmp_path / "file").read_bytes() == DATA


async def test_without_any_it_begins_anew(store: Store, tmp_path: Path) -> None:
    store.cut_after = [1000]
    await fetch(remote(store), tmp_path / "file")
    assert store.seen == [{}, {}]
    assert (tmp_path / "file").read_bytes() == DATA


async def test_without_a_checksum_nothing_is_kept(store: Store, tmp_path: Path) -> None:
    store.cut_after = [1000] + [0] * 10
    with pytest.raises(Unreachable):
        await fetch(remote(store), tmp_path / "file")
    assert left(tmp_path) == []


async def test_a_part_that_is_too_long_is_thrown_away(store: Store, tmp_path: Path) -> None:
    wanted = remote(store, size=len(DATA), checksum=SHA256)
    store.cut_after = [1000] + [0] * 10
    with pytest.raises(Unreachable):
        await fetch(wanted, tmp_path / "file")
    (name,) = left(tmp_path)
    (tmp_path / name).write_bytes(DATA + b"more")
    store.cut_after.clear()
    await fetch(wanted, tmp_path / "file")
    assert left(tmp_path) == ["file"]


async def test_a_whole_part_is_not_fetched_again(store: Store, tmp_path: Path) -> None:
    wanted = remote(store, size=len(DATA), checksum=SHA256)
    store.cut_after = [1000] + [0] * 10
    with pytest.raises(Unreachable):
        await fetch(wanted, tmp_path / "file")
    (name,) = left(tmp_path)
    (tmp_path / name).write_bytes(DATA)
    store.seen.clear()
    await fetch(wanted, tmp_path / "file")
    assert store.seen == []


async def test_another_part_than_the_one_asked_for(store: Store, tmp_path: Path) -> None:
    store.cut_after, store.wrong_range = [1000], True
    with pytest.raises(HttpFailure, match="another part"):
        await fetch(remote(store, size=len(DATA), checksum=SHA256), tmp_path / "file")


async def test_more_than_was_announced(store: Store, tmp_path: Path) -> None:
    with pytest.raises(HttpFailure, match="more bytes came"):
        await fetch(remote(store, size=100, checksum=SHA256), tmp_path / "file")
    assert left(tmp_path) == []


async def test_how_long_to_wait_is_the_servers_word(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []

    async def pause(seconds: float) -> None:
        pauses.append(seconds)

    monkeypatch.setattr(module.asyncio, "sleep", pause)
    store.answers = [
        web.Response(status=429, headers={"Retry-After": value}) for value in ("7", "900", "soon")
    ]
    await fetch(remote(store), tmp_path / "file")
    assert [round(value) for value in pauses] == [7, 30, 0]


async def test_two_at_a_time(store: Store, tmp_path: Path) -> None:
    wanted = remote(store, size=len(DATA), checksum=SHA256)
    part = module._part_path(wanted, tmp_path / "file")
    with part.open("wb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(CliError, match="another process is fetching"):
            await fetch(wanted, tmp_path / "file")
    await fetch(wanted, tmp_path / "file")
    assert left(tmp_path) == ["file"]


async def test_the_disk_fills_up(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def write(transfer: Any, data: bytes) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(module._Transfer, "_write", write)
    with pytest.raises(CliError, match="the disk is full") as caught:
        await fetch(remote(store, size=len(DATA), checksum=SHA256), tmp_path / "file")
    assert "continues where it stopped" in caught.value.hint


async def test_a_folder_that_cannot_be(store: Store, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(CliError, match="cannot write"):
        await fetch(remote(store), tmp_path / "file" / "below")


async def test_refused_after_a_look(store: Store, tmp_path: Path) -> None:
    def refuse(part: Path) -> None:
        assert part.read_bytes() == DATA
        raise CliError("no dataset")

    (tmp_path / "file").write_text("the old one")
    with pytest.raises(CliError, match="no dataset"):
        await fetch(remote(store, size=len(DATA), checksum=SHA256), tmp_path / "file", refuse)
    assert left(tmp_path) == ["file"]
    assert (tmp_path / "file").read_text() == "the old one"
