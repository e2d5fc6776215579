"""Runs a program against its tests, inside the sandbox, as process 1 of it. Needs the standard library only.

The program is untrusted, and this process is not: it never executes any of it. It forks a child for that,
which has no descriptor of ours, and closes itself to the child: its memory and its descriptors cannot be
reached through /proc, and no signal of the child kills it. So nobody but this process writes to its stdout,
where the server reads what the program printed or returned. The right answers are not known in here.

Modules that take long to import (json, traceback) are imported where they are needed only.

stdin: a marshalled `Header`, then the inputs of all tests, one after the other.
stdout: the byte `READY`, then for each test a `FRAME` and what it announces.
"""

from __future__ import annotations

import builtins
import fcntl
import gc
import marshal
import os
import select
import struct
import sys
import time
from types import ModuleType, TracebackType

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing takes longer to import than most programs run
    from typing import Any, BinaryIO, NoReturn, TextIO

READY = b"\x06"
FRAME = struct.Struct(">BdQQ")
"""How a test ended, after how many seconds, and the sizes of its output and of its report, which follow."""
DONE, FAILED, NOT_LOADED, DIED, TIMEOUT, TOO_LONG = range(6)
"""It ended; it raised; it is no Python; its process died; its time was up; it printed too much."""

REPORT_BYTES = 131_072
_MOST_CHARACTERS = 3_000
"""Of each of the three parts of a report; twelve bytes each if all are escaped."""
PROGRAM = "<string>"
"""The file name of the program, in its tracebacks."""
RECURSION_LIMIT = 50_000
INTEGER_DIGITS = 50_000
_SIZE = struct.Struct(">Q")
_HIGH, _MOST_DESCRIPTORS = 16, 4096
_PR_SET_DUMPABLE = 4
_CHUNK = 1 << 16


class Header:
    """What to run; the fields in this order are what is marshalled.

    Attributes:
        code: the program.
        function: its function to call; "": it is a script that reads stdin.
        timeout_s: time for each test.
        output_bytes: what a test may print or return.
        modules: those of which the program finds all names, as if it had imported them.
        path: folders with further packages.
        sizes: of the inputs.
    """

    def __init__(
        self,
        code: str,
        function: str,
        timeout_s: float,
        output_bytes: int,
        modules: tuple[str, ...],
        path: tuple[str, ...],
        sizes: tuple[int, ...],
    ) -> None:
        self.code, self.function = code, function
        self.timeout_s, self.output_bytes = timeout_s, output_bytes
        self.modules, self.path, self.sizes = modules, path, sizes
        self.module = ModuleType("__main__")


def main() -> None:
    """Reads what to run, and runs it until the first test that does not end well."""
    questions = sys.stdin.buffer
    header = Header(*marshal.load(questions))
    _close_to_others()
    _prepare(header)
    _write(1, READY)
    if header.function:
        _call_function(header, questions)
    else:
        _run_script(header, questions)


def _prepare(header: Header) -> None:
    """Does what all children need, so that they find it done."""
    sys.argv = ["main.py"]
    sys.path += header.path
    sys.set_int_max_str_digits(INTEGER_DIGITS)
    sys.setrecursionlimit(RECURSION_LIMIT)
    builtins.exit = builtins.quit = sys.exit  # type: ignore[assignment]
    # For their own descriptors 0 to 2; we read and write ours without these.
    sys.stdin, sys.stdout, sys.stderr = _stream(0, "r"), _stream(1, "w"), _stream(2, "w")
    # What a program finds imported is not among its own names, as if it were built in.
    found = dict(vars(builtins))
    lines = [f"from {name} import *" for name in header.modules]
    lines += [f"import {name}" for name in header.modules]
    exec("\n".join(lines), found)
    vars(header.module)["__builtins__"] = found
    # Children share our memory until they write to it; the collector would.
    gc.disable()
    gc.freeze()


def _close_to_others() -> None:
    """Takes from processes of the same user the right to look into this one."""
    import ctypes

    if ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0) != 0:
        raise OSError("prctl refused PR_SET_DUMPABLE")


# A script: for each test a process of its own, with files for its input and its output.


def _run_script(header: Header, questions: BinaryIO) -> None:
    for size in header.sizes:
        files = [_file(questions.read(size)), _file(), _file()]
        started = time.monotonic()
        child = os.fork()
        if child == 0:
            _script(header, files)
        ended = _wait(child, started + header.timeout_s)
        seconds = time.monotonic() - started
        status = _kill_all(child)
        outcome = TIMEOUT if not ended else _outcome(status)
        output, report = _content(files[1], header.output_bytes + 1), _content(files[2], REPORT_BYTES)
        if len(output) > header.output_bytes:
            outcome, output = TOO_LONG, b""
        for file in files:
            os.close(file)
        _send(outcome, seconds, output, report)
        if outcome != DONE:
            return


def _script(header: Header, files: list[int]) -> NoReturn:
    """The child: becomes the program."""
    outcome = FAILED
    try:
        _leave_parent([*files[:2], os.open(os.devnull, os.O_WRONLY), files[2]])
        stdout = sys.stdout
        try:
            _load(header)
        except SystemExit:
            pass
        _end_interpreter(stdout)
        outcome = DONE
    except BaseException as failure:
        if _program_trace(failure) is None and isinstance(failure, SyntaxError):
            outcome = NOT_LOADED
        _write(3, _reported(failure))
    finally:
        os._exit(outcome)


def _stream(descriptor: int, mode: str) -> TextIO:
    return open(descriptor, mode, encoding="utf-8", errors="surrogateescape", closefd=False)  # type: ignore[return-value]


def _end_interpreter(stdout: TextIO) -> None:
    """What an interpreter does when a program ends: waits for threads, calls atexit functions, flushes."""
    for module, function in (("threading", "_shutdown"), ("atexit", "_run_exitfuncs")):
        if module in sys.modules:
            getattr(sys.modules[module], function)()
    for stream in (sys.stdout, stdout):  # programs put faster ones in its place
        if hasattr(stream, "flush") and not getattr(stream, "closed", False):
            stream.flush()


def _program_trace(failure: BaseException) -> TracebackType | None:
    """The part of the traceback that is the program's; None: it was not even executed."""
    trace = failure.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename != PROGRAM:
        trace = trace.tb_next
    return trace


def _reported(failure: BaseException) -> bytes:
    """What went wrong, as JSON."""
    import json
    import traceback

    lines = traceback.format_exception(failure.with_traceback(_program_trace(failure)), limit=-20)
    report = {
        "error": repr(failure)[:_MOST_CHARACTERS],
        "message": str(failure)[:_MOST_CHARACTERS],
        "traceback": "".join(lines)[-_MOST_CHARACTERS:],
    }
    return json.dumps(report).encode()


# A function: one process that is asked once for each test, since a module is loaded once.


def _call_function(header: Header, questions: BinaryIO) -> None:
    import json  # before the fork: the child needs it at once  # noqa: F401

    (asked, ask), (answer, answered) = os.pipe(), os.pipe()
    started = time.monotonic()
    child = os.fork()
    if child == 0:
        _functions(header, asked, answered)
    os.close(asked)
    os.close(answered)
    os.set_blocking(ask, False)
    limit = header.output_bytes
    outcome, _, report = _exchange(ask, answer, b"", started + header.timeout_s, limit)
    if outcome != DONE:
        outcome = NOT_LOADED if outcome in (FAILED, TIMEOUT) else outcome
        _send(outcome, time.monotonic() - started, b"", report)
    for size in header.sizes if outcome == DONE else ():
        question = _SIZE.pack(size) + questions.read(size)
        started = time.monotonic()
        outcome, output, report = _exchange(ask, answer, question, started + header.timeout_s, limit)
        _send(outcome, time.monotonic() - started, output, report)
        if outcome != DONE:
            break
    _kill_all(child)


def _functions(header: Header, asked: int, answered: int) -> NoReturn:
    """The child: loads the program, then answers one question after the other."""
    try:
        import json

        null = os.open(os.devnull, os.O_RDWR)
        _leave_parent([null, null, null, asked, answered])
        try:
            module = _load(header)
            # As judges of this kind have it: the class is made once and asked for all tests.
            owner = module.Solution() if "class Solution" in header.code else module
            function = getattr(owner, header.function)
        except BaseException as failure:
            _answer(FAILED, _reported(failure))
            os._exit(1)
        _answer(DONE, b"")
        with open(3, "rb") as asked_here:
            while len(size := asked_here.read(_SIZE.size)) == _SIZE.size:
                lines = asked_here.read(_SIZE.unpack(size)[0]).decode().split("\n")
                try:
                    arguments = [json.loads(line) for line in lines]
                    answer = json.dumps(_plain(function(*arguments))).encode()
                except BaseException as failure:
                    _answer(FAILED, _reported(failure))
                    os._exit(1)
                _answer(DONE, answer)
    finally:
        os._exit(1)


def _answer(outcome: int, content: bytes) -> None:
    _write(4, _SIZE.pack(1 + len(content)) + bytes([outcome]) + content)


def _plain(value: Any) -> Any:
    """A value as JSON that keeps what JSON does not know: tuples, keys that are no text, other numbers."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int.__int__(value)
    if isinstance(value, float):
        return float.__float__(value)
    if isinstance(value, list):
        return [_plain(item) for item in list.__iter__(value)]
    if isinstance(value, tuple):
        return {"tuple": [_plain(item) for item in tuple.__iter__(value)]}
    if isinstance(value, dict):
        return {"dict": [[_plain(key), _plain(item)] for key, item in dict.items(value)]}
    kind = type(value)
    if kind.__module__ == "numpy" and hasattr(value, "item") and not hasattr(value, "__len__"):
        return _plain(value.item())
    if (kind.__module__, kind.__name__) in (("decimal", "Decimal"), ("fractions", "Fraction")):
        return {kind.__name__: str(value)}
    return {"other": f"{kind.__module__}.{kind.__qualname__}"}


def _exchange(
    ask: int, answer: int, question: bytes, deadline: float, limit: int
) -> tuple[int, bytes, bytes]:
    """Asks the child and waits for its answer: how that ended, the output, the report."""
    left, got = memoryview(question), bytearray()
    while True:
        seconds = deadline - time.monotonic()
        if seconds <= 0:
            return TIMEOUT, b"", b""
        readable, writable, _ = select.select([answer], [ask] if left else [], [], seconds)
        if writable:
            try:
                left = left[os.write(ask, left[:_CHUNK]) :]
            except BrokenPipeError:
                left = left[:0]  # it has closed its end; what it says, or its death, comes below
        if not readable:
            continue
        chunk = os.read(answer, _CHUNK)
        if not chunk:
            return DIED, b"", b""
        got += chunk
        if len(got) < _SIZE.size:
            continue
        (size,) = _SIZE.unpack_from(got)
        if size > limit:
            return TOO_LONG, b"", b""
        if size and len(got) >= _SIZE.size + size:
            outcome, content = got[_SIZE.size], bytes(got[_SIZE.size + 1 : _SIZE.size + size])
            return (DONE, content, b"") if outcome == DONE else (FAILED, b"", content[:REPORT_BYTES])


# Both.


def _load(header: Header) -> ModuleType:
    """Executes the program as the main module."""
    gc.enable()
    module = sys.modules["__main__"] = header.module
    exec(compile(header.code, PROGRAM, "exec", dont_inherit=True), vars(module))
    return module


def _leave_parent(descriptors: list[int]) -> None:
    """Makes these descriptors 0, 1, 2... and closes all others, the channel to the server above all."""
    os.setsid()
    high = [fcntl.fcntl(descriptor, fcntl.F_DUPFD, _HIGH) for descriptor in descriptors]
    for number, descriptor in enumerate(high):
        os.dup2(descriptor, number)
    os.closerange(len(high), _MOST_DESCRIPTORS)


def _file(content: bytes = b"") -> int:
    """A file without a name, open at its beginning."""
    file = os.open(os.environ.get("TMPDIR", "/tmp"), os.O_TMPFILE | os.O_RDWR, 0o600)
    if content:
        _write(file, content)
        os.lseek(file, 0, os.SEEK_SET)
    return file


def _content(file: int, limit: int) -> bytes:
    os.lseek(file, 0, os.SEEK_SET)
    content = bytearray()
    while len(content) < limit and (chunk := os.read(file, min(1 << 20, limit - len(content)))):
        content += chunk
    return bytes(content)


def _wait(child: int, deadline: float) -> bool:
    """Waits for the end of a child, without reaping it; False if it goes on at the deadline."""
    try:
        handle = os.pidfd_open(child)
    except OSError:  # Linux before 5.3
        while not (ended := os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT)):
            if time.monotonic() > deadline:
                return False
            time.sleep(0.001)
        return bool(ended)
    try:
        return bool(select.select([handle], [], [], max(0.0, deadline - time.monotonic()))[0])
    finally:
        os.close(handle)


def _kill_all(child: int) -> int:
    """Kills a child and all that it started; its wait status."""
    alone = os.getpid() == 1
    try:
        os.kill(child, 9)
        os.kill(-1 if alone else -child, 9)  # all but ourselves, or its process group
    except ProcessLookupError:
        pass
    _, status = os.waitpid(child, 0)
    while alone:
        try:
            os.waitpid(-1, 0)  # those whose parents have ended are ours
        except ChildProcessError:
            break
    return status


def _outcome(status: int) -> int:
    if os.WIFSIGNALED(status):
        return DIED
    code = os.WEXITSTATUS(status)
    return code if code in (DONE, FAILED, NOT_LOADED) else DIED


def _send(outcome: int, seconds: float, output: bytes, report: bytes) -> None:
    _write(1, FRAME.pack(outcome, seconds, len(output), len(report)))
    _write(1, output)
    _write(1, report)


def _write(descriptor: int, content: bytes) -> None:
    left = memoryview(content)
    while left:
        left = left[os.write(descriptor, left) :]


if __name__ == "__main__":
    main()
