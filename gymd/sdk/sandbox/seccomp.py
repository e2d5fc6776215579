"""The system call filter: a table of what no job ever needs, and an assembler that makes BPF of it.

The filter runs in the kernel before each system call (seccomp(2), mode FILTER). It is a second wall: most of
these calls would be refused anyway, because a job has no capabilities, but each is a way into kernel code
where such checks have failed before.
"""

from __future__ import annotations

import errno
import functools
import platform
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from gymd.errors import error

__all__ = ["filter_program"]

# Classic BPF: struct sock_filter {u16 code; u8 jt; u8 jf; u32 k} (linux/filter.h).
_INSTRUCTION = struct.Struct("=HBBI")
_LOAD, _EQUALS, _AT_LEAST, _HAS_BITS, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06

# struct seccomp_data {int nr; u32 arch; u64 instruction_pointer; u64 args[6]} (linux/seccomp.h).
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16

_ALLOW, _KILL = 0x7FFF0000, 0x80000000


def _fail(code: int) -> int:
    """SECCOMP_RET_ERRNO: the call is not made and answers this error."""
    return 0x00050000 | code


@dataclass(frozen=True, slots=True)
class _Argument:
    """A test of the low 32 bits of an argument; the call is refused if it holds.

    Attributes:
        index: which argument, from 0.
        values: it equals one of these.
        other_than: it equals none of these.
        bits: it has one of these bits.
    """

    index: int
    values: tuple[int, ...] = ()
    other_than: tuple[int, ...] = ()
    bits: int = 0


@dataclass(frozen=True, slots=True)
class _Rule:
    """What is refused: a system call, by its number on x86_64 and on aarch64 (None: it has none there)."""

    name: str
    x86_64: int | None
    aarch64: int | None
    answer: int = _fail(errno.EPERM)
    argument: _Argument | None = None


_NEW_NAMESPACES = 0x7E020000
"""CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID and NEWNET (linux/sched.h)."""
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
"""Put characters into a terminal's input: how a job would type into the shell that started it."""
_AF_UNIX, _AF_INET, _AF_INET6 = 1, 2, 10
_ENOSYS = _fail(errno.ENOSYS)

_RULES = (
    # Other processes: no debugging, no reading of their memory or files.
    _Rule("ptrace", 101, 117),
    _Rule("process_vm_readv", 310, 270),
    _Rule("process_vm_writev", 311, 271),
    _Rule("process_madvise", 440, 440),
    _Rule("kcmp", 312, 272),
    _Rule("pidfd_getfd", 438, 438),
    _Rule("prlimit64", 302, 261, argument=_Argument(0, other_than=(0,))),
    # Namespaces and mounts: the way to new privileges.
    _Rule("clone", 56, 220, argument=_Argument(0, bits=_NEW_NAMESPACES)),
    # Its flags are behind a pointer, where no filter can look; libraries fall back to clone.
    _Rule("clone3", 435, 435, answer=_ENOSYS),
    _Rule("unshare", 272, 97),
    _Rule("setns", 308, 268),
    _Rule("mount", 165, 40),
    _Rule("umount2", 166, 39),
    _Rule("pivot_root", 155, 41),
    _Rule("chroot", 161, 51),
    _Rule("move_mount", 429, 429),
    _Rule("open_tree", 428, 428),
    _Rule("fsopen", 430, 430),
    _Rule("fsconfig", 431, 431),
    _Rule("fsmount", 432, 432),
    _Rule("fspick", 433, 433),
    _Rule("mount_setattr", 442, 442),
    _Rule("name_to_handle_at", 303, 264),
    _Rule("open_by_handle_at", 304, 265),
    # Kernel code with a long record of holes.
    _Rule("bpf", 321, 280),
    _Rule("perf_event_open", 298, 241),
    _Rule("userfaultfd", 323, 282),
    _Rule("io_uring_setup", 425, 425, answer=_ENOSYS),
    _Rule("io_uring_enter", 426, 426, answer=_ENOSYS),
    _Rule("io_uring_register", 427, 427, answer=_ENOSYS),
    _Rule("keyctl", 250, 219),
    _Rule("add_key", 248, 217),
    _Rule("request_key", 249, 218),
    _Rule("modify_ldt", 154, None),
    _Rule("personality", 135, 92, argument=_Argument(0, other_than=(0, 0xFFFFFFFF))),
    _Rule("vhangup", 153, 58),
    _Rule("lookup_dcookie", 212, 18),
    _Rule("uselib", 134, None),
    _Rule("fanotify_init", 300, 262),
    _Rule("move_pages", 279, 239),
    _Rule("migrate_pages", 256, 238),
    # Memory that no process has mapped, so that nobody sees who uses it.
    _Rule("memfd_create", 319, 279, answer=_ENOSYS),
    _Rule("memfd_secret", 447, 447, answer=_ENOSYS),
    # The machine.
    _Rule("kexec_load", 246, 104),
    _Rule("kexec_file_load", 320, 294),
    _Rule("init_module", 175, 105),
    _Rule("finit_module", 313, 273),
    _Rule("delete_module", 176, 106),
    _Rule("reboot", 169, 142),
    _Rule("swapon", 167, 224),
    _Rule("swapoff", 168, 225),
    _Rule("acct", 163, 89),
    _Rule("quotactl", 179, 60),
    _Rule("quotactl_fd", 443, 443),
    _Rule("syslog", 103, 116),
    _Rule("settimeofday", 164, 170),
    _Rule("clock_settime", 227, 112),
    _Rule("clock_adjtime", 305, 266),
    _Rule("adjtimex", 159, 171),
    _Rule("iopl", 172, None),
    _Rule("ioperm", 173, None),
    _Rule("ioctl", 16, 29, argument=_Argument(1, values=(_TIOCSTI, _TIOCLINUX))),
    # The job's network is empty but for its own loopback; other families only reach kernel code.
    _Rule(
        "socket",
        41,
        198,
        answer=_fail(errno.EAFNOSUPPORT),
        argument=_Argument(0, other_than=(_AF_UNIX, _AF_INET, _AF_INET6)),
    ),
)

_AUDIT_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_X32 = 0x40000000
"""Numbers from here on are the x32 interface: the same calls under other numbers."""


@functools.cache
def filter_program(machine: str = "") -> bytes:
    """The filter as bytes, as `bwrap --seccomp` reads it.

    Args:
        machine: x86_64 or aarch64; "": this one.

    Raises:
        Unimplemented: there is no table for this kind of machine.
    """
    machine = machine or platform.machine()
    architecture = _AUDIT_ARCHITECTURES.get(machine)
    if architecture is None:
        known = " and ".join(_AUDIT_ARCHITECTURES)
        text = (
            f"there is no system call filter for {machine}, only for {known}: run the server on one of them"
        )
        raise error("NOT_IMPLEMENTED", text, feature="sandbox", machine=machine)
    program = [
        _step(_LOAD, _ARCHITECTURE),
        _step(_EQUALS, architecture, then=1),
        _step(_RETURN, _KILL),
        _step(_LOAD, _NUMBER),
    ]
    if machine == "x86_64":
        program += [_step(_AT_LEAST, _X32, otherwise=1), _step(_RETURN, _KILL)]
    for rule in _RULES:
        number = rule.x86_64 if machine == "x86_64" else rule.aarch64
        if number is not None:
            program += _assembled(rule, number)
    program.append(_step(_RETURN, _ALLOW))
    return b"".join(program)


def _step(code: int, value: int, then: int = 0, otherwise: int = 0) -> bytes:
    """One instruction; a test skips `then` instructions if it holds and `otherwise` if not."""
    return _INSTRUCTION.pack(code, then, otherwise, value)


def _assembled(rule: _Rule, number: int) -> list[bytes]:
    body = [_step(_RETURN, rule.answer)] if rule.argument is None else list(_tests(rule, rule.argument))
    return [_step(_EQUALS, number, otherwise=len(body)), *body]


def _tests(rule: _Rule, argument: _Argument) -> Iterator[bytes]:
    """Loads the argument and answers; nothing falls through, since the number is loaded no more."""
    yield _step(_LOAD, _ARGUMENTS + 8 * argument.index)
    if argument.bits:
        yield from _either(_HAS_BITS, (argument.bits,), rule.answer, _ALLOW)
    elif argument.values:
        yield from _either(_EQUALS, argument.values, rule.answer, _ALLOW)
    else:
        yield from _either(_EQUALS, argument.other_than, _ALLOW, rule.answer)


def _either(code: int, values: Iterable[int], found: int, otherwise: int) -> Iterator[bytes]:
    """Returns `found` if a test holds for one of the values, else `otherwise`."""
    values = tuple(values)
    for place, value in enumerate(values):
        yield _step(code, value, then=len(values) - place)
    yield _step(_RETURN, otherwise)
    yield _step(_RETURN, found)
