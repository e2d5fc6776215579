"""The processes that check and measure chunks, and how the command talks to them.

Pipes and not a pool of the standard library: a worker ends by itself when the command is gone, however it
went, and there are no helper processes that take memory.
"""

from __future__ import annotations

import ctypes
import gc
import os
import pickle
import selectors
import signal
import subprocess
import sys
from collections.abc import Generator, Iterable, Iterator
from pathlib import Path
from typing import Any

from gymctl.errors import CliError
from gymctl.prepare.chunks import Chunk
from gymctl.prepare.count import TokenCounter, TokenizerError
from gymctl.prepare.measure import ChunkReport, Measurer

__all__ = ["measure_all"]

Reports = Generator[ChunkReport, None, None]

_LENGTH_BYTES = 8
# Chunks that a worker has ahead, so that it never waits for the command.
_AHEAD = 2
# Nearly everything that a worker makes is gone with its row: looking for cycles is worth little.
_GC_THRESHOLD = 100_000


def measure_all(chunks: Iterable[Chunk], workers: int, tokenizer: Path | None) -> Reports:
    """The reports of chunks, in their order.

    Args:
        workers: 0 measures in this process, which is quickest for small inputs.
        tokenizer: a tokenizer.json; None leaves token counts out.

    Raises:
        CliError: the tokenizer cannot be used, or a worker died.
        OSError: a file cannot be read.
    """
    if not workers:
        try:
            measurer = _make_measurer(tokenizer, remembers=False)
        except TokenizerError as problem:
            raise _no_tokenizer(problem) from None
        yield from map(measurer.measure, chunks)
        return
    crew = [_Worker(tokenizer) for _ in range(workers)]
    try:
        yield from _in_order(iter(chunks), crew)
    finally:
        for worker in crew:
            worker.close()


def _in_order(chunks: Iterator[Chunk], crew: list[_Worker]) -> Iterator[ChunkReport]:
    done: dict[int, ChunkReport] = {}
    sent = due = 0
    with selectors.DefaultSelector() as selector:
        for worker in crew:
            selector.register(worker.output, selectors.EVENT_READ, worker)
        while True:
            for worker in crew * _AHEAD:
                # Few chunks ahead of the slowest one: what is done waits in memory.
                if len(worker.numbers) < _AHEAD and sent - due < 4 * len(crew):
                    chunk = next(chunks, None)
                    if chunk is None:
                        break
                    worker.send(sent, chunk)
                    sent += 1
            if due == sent:
                return
            for key, _ in selector.select():
                number, report = key.data.receive()
                done[number] = report
            while due in done:
                yield done.pop(due)
                due += 1


class _Worker:
    """One process."""

    def __init__(self, tokenizer: Path | None) -> None:
        # -P: no module of the working directory takes the place of one of ours. A group of its own: Ctrl-C at
        # the terminal is for the command, which then ends its workers.
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", __name__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            process_group=0,
        )
        self.numbers: list[int] = []
        self._send(str(tokenizer) if tokenizer else None)

    @property
    def output(self) -> int:
        """The descriptor to wait on for reports."""
        assert self._process.stdout is not None
        return self._process.stdout.fileno()

    def send(self, number: int, chunk: Chunk) -> None:
        """Hands it a chunk."""
        self.numbers.append(number)
        self._send(chunk)

    def receive(self) -> tuple[int, ChunkReport]:
        """Reads the report of the chunk that it has had longest."""
        message = _receive(self.output)
        if message is _END:
            raise self._died()
        if isinstance(message, TokenizerError):
            raise _no_tokenizer(message)
        if isinstance(message, OSError):
            raise message
        return self.numbers.pop(0), message

    def close(self) -> None:
        """Ends it."""
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()
        self._process.kill()
        self._process.wait()

    def _send(self, message: Any) -> None:
        assert self._process.stdin is not None
        try:
            _send(self._process.stdin.fileno(), message)
        except BrokenPipeError:
            raise self._died() from None

    def _died(self) -> CliError:
        code = self._process.wait()
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        hint = "If the memory ran out, run it with --workers 1; otherwise report what it wrote above."
        return CliError(f"a worker process ended before its time ({how})", hint)


def _no_tokenizer(problem: TokenizerError) -> CliError:
    return CliError(str(problem), "Name a tokenizer.json with --tokenizer, or `none`.")


_END = object()


def _send(descriptor: int, message: Any) -> None:
    data = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
    view = memoryview(len(data).to_bytes(_LENGTH_BYTES, "big") + data)
    while view:
        view = view[os.write(descriptor, view) :]


def _receive(descriptor: int) -> Any:
    head = _read(descriptor, _LENGTH_BYTES)
    body = _read(descriptor, int.from_bytes(head, "big")) if head else None
    return pickle.loads(body) if body else _END


def _read(descriptor: int, size: int) -> bytes | None:
    """So many bytes; None if the other side has gone before."""
    parts = []
    while size:
        part = os.read(descriptor, size)
        if not part:
            return None
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


# ---- in the worker


def _make_measurer(tokenizer: Path | None, *, remembers: bool) -> Measurer:
    return Measurer(TokenCounter(tokenizer, remembers=remembers) if tokenizer else None)


def _serve() -> None:
    """Measures what comes in until nothing comes any more."""
    source, target = os.dup(0), os.dup(1)
    os.dup2(2, 1)  # nothing that is printed by mistake gets between the reports
    tokenizer = _receive(source)
    if tokenizer is _END:
        return
    try:
        measurer = _make_measurer(Path(tokenizer) if tokenizer else None, remembers=True)
    except TokenizerError as problem:
        _receive(source)
        _send(target, problem)
        return
    _give_back()
    gc.freeze()
    gc.set_threshold(_GC_THRESHOLD)
    try:
        while (chunk := _receive(source)) is not _END:
            try:
                report: Any = measurer.measure(chunk)
            except OSError as problem:
                report = problem
            _send(target, report)
    except BrokenPipeError:
        return  # the command has gone


def _give_back() -> None:
    """Returns to the system what loading the tokenizer left over, some 15 MB; only glibc can be told to."""
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (OSError, AttributeError):
        return


if __name__ == "__main__":
    _serve()
