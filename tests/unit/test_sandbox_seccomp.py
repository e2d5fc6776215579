"""The system call filter, run by an interpreter of BPF as the kernel would run it, for both machines."""

import errno
import struct

import pytest

from gymd.errors import GymdError
from gymd.sdk.sandbox.seccomp import filter_program

ARCHITECTURE = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
ALLOW, KILL = 0x7FFF0000, 0x80000000
MOST_INSTRUCTIONS = 4096
"""The kernel takes no more."""


def refused(code: int) -> int:
    return 0x00050000 | code


def run(machine: str, number: int, *arguments: int, architecture: int | None = None) -> int:
    """What the filter answers to a system call."""
    values = (*arguments, *(0,) * (6 - len(arguments)))
    data = struct.pack("=iIQ6Q", number, architecture or ARCHITECTURE[machine], 0, *values)
    program = list(struct.iter_unpack("=HBBI", filter_program(machine)))
    accumulator, place = 0, 0
    while True:
        code, jump_true, jump_false, value = program[place]
        place += 1
        if code == 0x06:
            return value
        if code == 0x20:
            accumulator = struct.unpack_from("=I", data, value)[0]
            continue
        holds = {0x15: accumulator == value, 0x35: accumulator >= value, 0x45: bool(accumulator & value)}[
            code
        ]
        place += jump_true if holds else jump_false


# The numbers of some calls on x86_64 and aarch64, arguments, the answer.
CASES = [
    ("read", 0, 63, (), ALLOW),
    ("exit_group", 231, 94, (), ALLOW),
    ("execve", 59, 221, (), ALLOW),
    ("setresuid", 117, 147, (), ALLOW),  # setpriv needs it, inside the sandbox
    ("ptrace", 101, 117, (), refused(errno.EPERM)),
    ("mount", 165, 40, (), refused(errno.EPERM)),
    ("bpf", 321, 280, (), refused(errno.EPERM)),
    ("clone3", 435, 435, (), refused(errno.ENOSYS)),
    ("io_uring_setup", 425, 425, (), refused(errno.ENOSYS)),
    ("memfd_create", 319, 279, (), refused(errno.ENOSYS)),
    ("clone of a process", 56, 220, (17,), ALLOW),
    ("clone of a thread", 56, 220, (0x3D0F00,), ALLOW),
    ("clone with a user namespace", 56, 220, (0x10000000 | 17,), refused(errno.EPERM)),
    ("clone with a mount namespace", 56, 220, (0x00020000,), refused(errno.EPERM)),
    ("clone with a network namespace", 56, 220, (0x40000000,), refused(errno.EPERM)),
    ("socket of the UNIX family", 41, 198, (1,), ALLOW),
    ("socket of IPv4", 41, 198, (2,), ALLOW),
    ("socket of IPv6", 41, 198, (10,), ALLOW),
    ("socket of netlink", 41, 198, (16,), refused(errno.EAFNOSUPPORT)),
    ("socket of packets", 41, 198, (17,), refused(errno.EAFNOSUPPORT)),
    ("socket of family 0", 41, 198, (0,), refused(errno.EAFNOSUPPORT)),
    ("socket with rubbish in the high half", 41, 198, (1 << 32 | 16,), refused(errno.EAFNOSUPPORT)),
    ("ioctl TCGETS", 16, 29, (0, 0x5401), ALLOW),
    ("ioctl TIOCSTI", 16, 29, (0, 0x5412), refused(errno.EPERM)),
    ("ioctl TIOCSTI with rubbish in the high half", 16, 29, (0, 1 << 32 | 0x5412), refused(errno.EPERM)),
    ("ioctl TIOCLINUX", 16, 29, (0, 0x541C), refused(errno.EPERM)),
    ("prlimit64 of itself", 302, 261, (0, 7), ALLOW),
    ("prlimit64 of another", 302, 261, (1, 7), refused(errno.EPERM)),
    ("personality asked", 135, 92, (0xFFFFFFFF,), ALLOW),
    ("personality changed", 135, 92, (0x0040000,), refused(errno.EPERM)),
]


@pytest.mark.parametrize("machine", ARCHITECTURE)
@pytest.mark.parametrize(("name", "x86_64", "aarch64", "arguments", "answer"), CASES)
def test_table(
    machine: str, name: str, x86_64: int, aarch64: int, arguments: tuple[int, ...], answer: int
) -> None:
    assert run(machine, x86_64 if machine == "x86_64" else aarch64, *arguments) == answer, name


@pytest.mark.parametrize("machine", ARCHITECTURE)
def test_calls_of_another_machine_kill(machine: str) -> None:
    assert run(machine, 0, architecture=0x40000003) == KILL  # 32-bit x86


def test_x32_kills() -> None:
    assert run("x86_64", 0x40000000 | 101) == KILL


@pytest.mark.parametrize("machine", ARCHITECTURE)
def test_every_number_gets_an_answer(machine: str) -> None:
    assert len(filter_program(machine)) // 8 < MOST_INSTRUCTIONS
    known = {ALLOW, *(refused(code) for code in (errno.EPERM, errno.ENOSYS, errno.EAFNOSUPPORT))}
    assert {run(machine, number) for number in range(600)} == known


def test_other_machines_are_named() -> None:
    with pytest.raises(GymdError, match="riscv64"):
        filter_program("riscv64")
