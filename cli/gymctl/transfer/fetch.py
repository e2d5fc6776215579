"""Fetches one file over HTTP: resumed, verified, and put in its place only when it is whole."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import glob
import hashlib
import os
import shutil
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from gymctl.errors import CliError
from gymctl.transfer.progress import ByteProgress, size_text

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

    import aiohttp

__all__ = ["Checksum", "HttpFailure", "Remote", "Unreachable", "fetch", "hash_file", "is_disk_full"]

_CHUNK = 1 << 20
# Attempts without a single new byte; what arrives starts the count again.
_MOST_ATTEMPTS = 5
_BACKOFF_S = 0.5
_MOST_BACKOFF_S = 30.0
_RETRIED = (408, 425, 429, 500, 502, 503, 504)
_CONNECT_S = 20.0
_SILENCE_S = 60.0

Accept = Callable[[Path], None]
"""Looks at a whole file before it gets its name; raises to refuse it."""


class HttpFailure(Exception):
    """The server answered with a status that is none of success."""

    def __init__(self, status: int, text: str = "") -> None:
        super().__init__(f"HTTP status {status}" + (f": {text}" if text else ""))
        self.status = status


class Unreachable(Exception):
    """The server cannot be reached, or stopped answering."""


@dataclass(frozen=True)
class Checksum:
    """What the bytes of a file must come to: their SHA-256, or the SHA-1 that Git gives to the file."""

    kind: Literal["sha256", "git-sha1"]
    value: str


@dataclass(frozen=True)
class Remote:
    """A file that can be fetched."""

    url: str
    name: str
    """What people call it."""
    size: int | None = None
    checksum: Checksum | None = None
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    revision: str = ""
    """The commit or version that it belongs to."""
    copy: Callable[[Path], None] | None = field(default=None, repr=False)
    """Writes the file, where only a client of the store can; `url` is then not used."""


class _Sum:
    """The running checksum of a file, and its SHA-256 for the report."""

    def __init__(self, size: int | None) -> None:
        self._sha256 = hashlib.sha256()
        # Git hashes a header with the size first, so the size has to be known.
        self._git = None if size is None else hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)

    def update(self, data: bytes) -> None:
        self._sha256.update(data)
        if self._git is not None:
            self._git.update(data)

    @property
    def sha256(self) -> str:
        return self._sha256.hexdigest()

    def matches(self, wanted: Checksum | None) -> bool:
        if wanted is None:
            return True
        if wanted.kind == "sha256":
            return wanted.value == self.sha256
        return self._git is None or wanted.value == self._git.hexdigest()


def hash_file(path: Path) -> tuple[int, str]:
    """Size and SHA-256 of a file."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        return file.tell(), digest


def is_disk_full(problem: BaseException) -> bool:
    """Whether a failure means that there is no room."""
    return isinstance(problem, OSError) and problem.errno in (errno.ENOSPC, errno.EDQUOT)


async def fetch(remote: Remote, target: Path, accept: Accept | None = None) -> tuple[int, str]:
    """Fetches a file to `target`, which is replaced as a whole; returns its size and SHA-256.

    What has arrived when it is interrupted stays beside the target in `.<name>.<key>.part`, and the next call
    continues there; the key is made from the checksum, so that parts of different files never mix. Without a
    checksum nothing is kept.

    Raises:
        HttpFailure: the server refused.
        Unreachable: it does not answer, after several attempts.
        CliError: the disk is full, the file is damaged or being fetched by another process.
    """
    with _told(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        part = _part_path(remote, target)
        with _locked(part, target) as file:
            size, digest = await _Transfer(remote, file, part).run()
            if accept is not None:
                try:
                    accept(part)
                except CliError:
                    part.unlink(missing_ok=True)
                    raise
            _publish(part, target)
        for other in target.parent.glob(f".{glob.escape(target.name)}.*.part"):
            other.unlink(missing_ok=True)
    return size, digest


def _part_path(remote: Remote, target: Path) -> Path:
    key = remote.checksum.value if remote.checksum else f"{remote.url}\n{remote.name}"
    short = hashlib.sha256(key.encode()).hexdigest()[:16]
    return target.with_name(f".{target.name}.{short}.part")


@contextmanager
def _told(target: Path) -> Iterator[None]:
    """Says what to do when writing fails."""
    try:
        yield
    except OSError as problem:
        if is_disk_full(problem):
            hint = "Make room on the disk and run it again: it continues where it stopped."
            raise CliError(f"the disk is full: {target.parent}", hint) from None
        raise CliError(
            f"cannot write {target}: {problem.strerror or problem}", "Check the folder and its permissions."
        ) from None


@contextmanager
def _locked(part: Path, target: Path) -> Iterator[BinaryIO]:
    """The partial file, for this process alone; one that holds nothing goes away again."""
    taken = CliError(f"another process is fetching {target}", "Wait till it is done.")
    with part.open("a+b") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # The other one may just have finished, and what was opened is its result.
            if not os.path.samestat(os.fstat(file.fileno()), part.stat()):
                raise taken
        except (BlockingIOError, FileNotFoundError):
            raise taken from None
        try:
            yield file
        finally:
            with suppress(OSError):
                file.flush()
                if part.stat().st_size == 0:
                    part.unlink()


def _publish(part: Path, target: Path) -> None:
    # A file whose name is there but whose content is not would be taken for whole after a power failure.
    with part.open("rb") as file:
        os.fsync(file.fileno())
    part.replace(target)


class _Transfer:
    """One file on its way."""

    def __init__(self, remote: Remote, file: BinaryIO, part: Path) -> None:
        self.remote = remote
        self.file = file
        self.part = part
        self.done = 0
        self.sum = _Sum(remote.size)
        self.progress = ByteProgress(f"downloading {remote.name}", remote.size)
        # Names the content that the first answer began with.
        self.validator = ""

    async def run(self) -> tuple[int, str]:
        try:
            return await self._run()
        except BaseException:
            if self.remote.checksum is None:
                self.part.unlink(missing_ok=True)
            raise
        finally:
            self.progress.done()

    async def _run(self) -> tuple[int, str]:
        if self.remote.checksum is None:
            self._restart()
        was_there = await self._take_up()
        self._check_room()
        await self._fill()
        if not self._is_sound() and was_there:
            # What lay there was not what it should have been.
            self._restart()
            await self._fill()
        if not self._is_sound():
            self.part.unlink(missing_ok=True)
            text = f"{self.remote.name} arrived damaged: its checksum is not the one that was announced"
            raise CliError(text, "Run it again. If it fails again, the file is broken where it comes from.")
        self.file.flush()
        return self.done, self.sum.sha256

    def _is_sound(self) -> bool:
        whole = self.remote.size is None or self.done == self.remote.size
        return whole and self.sum.matches(self.remote.checksum)

    def _restart(self) -> None:
        self.file.truncate(0)
        self.file.seek(0)
        self.done = 0
        self.sum = _Sum(self.remote.size)
        self.validator = ""

    async def _take_up(self) -> bool:
        """Reads what an earlier run left; whether there was anything."""
        self.file.seek(0)
        while data := self.file.read(_CHUNK):
            self.sum.update(data)
            self.done += len(data)
            # Lets Ctrl-C through.
            await asyncio.sleep(0)
        if self.remote.size is not None and self.done > self.remote.size:
            self._restart()
        return self.done > 0

    def _check_room(self) -> None:
        if self.remote.size is None:
            return
        free, needed = shutil.disk_usage(self.part.parent).free, self.remote.size - self.done
        if free < needed:
            has = f"{self.part.parent} has {size_text(free)} left"
            text = f"{self.remote.name} needs {size_text(needed)}, and {has}"
            raise CliError(text, "Make room on the disk and run it again.")

    async def _fill(self) -> None:
        """Fetches what is missing."""
        if self.remote.size is not None and self.done == self.remote.size:
            return
        if self.remote.copy is not None:
            await self._copy(self.remote.copy)
            return
        import aiohttp

        async with _session() as session:
            attempt = 0
            while True:
                before = self.done
                try:
                    await self._request(session)
                    return
                except (aiohttp.ClientError, TimeoutError) as problem:
                    failure: Exception = Unreachable(f"{type(problem).__name__}: {problem}")
                    pause = 0.0
                except _Later as problem:
                    failure, pause = HttpFailure(problem.status), problem.pause_s
                attempt = 0 if self.done > before else attempt + 1
                if attempt >= _MOST_ATTEMPTS:
                    raise failure
                await asyncio.sleep(max(pause, min(_BACKOFF_S * 2**attempt, _MOST_BACKOFF_S)))

    async def _copy(self, copy: Callable[[Path], None]) -> None:
        self._restart()
        temporary = self.part.with_name(f"{self.part.name}.{os.getpid()}")
        try:
            await asyncio.to_thread(copy, temporary)
            with temporary.open("rb") as source:
                while data := source.read(_CHUNK):
                    self._write(data)
        finally:
            temporary.unlink(missing_ok=True)

    async def _request(self, session: aiohttp.ClientSession) -> None:
        """Asks once for what is missing, and writes what comes."""
        headers = {**self.remote.headers, "Accept-Encoding": "identity"}
        if self.done and not self.remote.checksum and not self.validator:
            # Nothing tells whether the rest would belong to what is there.
            self._restart()
        if self.done:
            headers["Range"] = f"bytes={self.done}-"
            if self.validator:
                headers["If-Range"] = self.validator
        async with self._response(session, headers) as response:
            if self.done and response.status != 206:
                self._restart()
            tag = response.headers.get("ETag", "")
            self.validator = "" if tag.startswith("W/") else tag
            async for data in response.content.iter_chunked(_CHUNK):
                self._write(data)
        if self.remote.size is not None and self.done < self.remote.size:
            import aiohttp

            raise aiohttp.ClientPayloadError(f"{self.done} of {self.remote.size} bytes came")

    def _write(self, data: bytes) -> None:
        self.file.write(data)
        self.sum.update(data)
        self.done += len(data)
        self.progress.tell(self.done)
        if self.remote.size is not None and self.done > self.remote.size:
            self._restart()
            raise HttpFailure(200, "more bytes came than were announced")

    @asynccontextmanager
    async def _response(
        self, session: aiohttp.ClientSession, headers: Mapping[str, str]
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        async with session.get(self.remote.url, headers=headers) as response:
            if response.status == 416 and self.done:
                self._restart()
                raise _Later(416, 0.0)
            if response.status in _RETRIED:
                raise _Later(response.status, _pause(response.headers.get("Retry-After", "")))
            if response.status not in (200, 206):
                raise HttpFailure(response.status)
            if response.status == 206 and not _starts_at(response, self.done):
                raise HttpFailure(206, "another part of the file came than was asked for")
            yield response


def _session() -> aiohttp.ClientSession:
    import ssl

    import aiohttp

    # The variable that the stores' own clients follow where a company signs its certificates itself.
    context = ssl.create_default_context(cafile=os.environ.get("REQUESTS_CA_BUNDLE") or None)
    return aiohttp.ClientSession(
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_S, sock_read=_SILENCE_S),
        connector=aiohttp.TCPConnector(ssl=context),
        trust_env=True,
        auto_decompress=False,
    )


class _Later(Exception):
    """The server cannot answer now."""

    def __init__(self, status: int, pause_s: float) -> None:
        super().__init__(status)
        self.status = status
        self.pause_s = pause_s


def _pause(retry_after: str) -> float:
    return min(float(retry_after), _MOST_BACKOFF_S) if retry_after.isdigit() else 0.0


def _starts_at(response: aiohttp.ClientResponse, offset: int) -> bool:
    return response.headers.get("Content-Range", "").startswith(f"bytes {offset}-")
