"""A child process of any event loop: its streams, its end, and nothing left behind."""

import asyncio
import gc
import signal
import sys
from subprocess import STDOUT

import pytest

from gymd.child import Child


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


async def test_input_goes_in_and_both_outputs_come_out() -> None:
    child = await Child.start(python("import sys; print(sys.stdin.read()[::-1]); sys.exit('no')"))
    assert await child.communicate(b"abc") == (b"cba\n", b"no\n")
    assert await child.wait() == 1
    assert not child.running
    child.close()


async def test_one_stream_for_both_and_any_number_that_wait() -> None:
    child = await Child.start(python("import os; os.write(2, b'b'); os.write(1, b'a')"), stderr=STDOUT)
    first = asyncio.create_task(child.wait())
    await asyncio.sleep(0)
    first.cancel()  # one who leaves does not hinder the others
    assert await asyncio.gather(child.wait(), child.wait()) == [0, 0]
    assert await child.stdout.read() == b"ba"
    child.close()


async def test_a_killed_group_ends_with_what_it_started() -> None:
    code = "import subprocess, sys; subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])"
    child = await Child.start(python(code + "; print('up', flush=True); input()"), start_new_session=True)
    assert await child.stdout.readline() == b"up\n"
    child.kill_group()
    assert await child.wait() == -signal.SIGKILL
    assert await child.stdout.read() == b""  # the grandchild, which held the pipe, is gone too
    child.close()


async def test_input_that_nobody_reads_is_no_failure() -> None:
    child = await Child.start(python(""))
    assert (await child.communicate(b"x" * 5_000_000))[0] == b""
    assert await child.wait() == 0
    child.close()


async def test_what_cannot_be_executed_says_so_and_leaves_no_pipe() -> None:
    with pytest.raises(FileNotFoundError):
        await Child.start(["/nowhere/at/all"])
    gc.collect()


async def test_many_at_once_all_end() -> None:
    async def one(number: int) -> int:
        child = await Child.start(python(f"import sys; print({number}); sys.exit({number})"))
        assert (await child.communicate())[0] == b"%d\n" % number
        child.close()
        return await child.wait()

    assert await asyncio.gather(*map(one, range(20))) == list(range(20))
