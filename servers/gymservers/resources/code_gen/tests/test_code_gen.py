"""Programs against tests: the table of rewards first, then failures of rows and servers, and metrics."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import orjson
import pytest

from gymapi.v1.resources_service_pb2 import ScoredRollout
from gymd.errors import GymdError
from gymd.sdk.sandbox import Sandbox
from gymd.sdk.testing import RunningServer, expect_error, make_response, message, reasoning, start_server
from gymservers.resources.code_gen.extraction import extract_code
from gymservers.resources.code_gen.prelude import MODULES, needed_modules
from gymservers.resources.code_gen.server import CodeGen

WRONG, TIME, RUNTIME, GLOBAL = -2, -3, -4, -1
LIMITS = {"unit_test_timeout_secs": 5, "memory_mb": 512}


@pytest.fixture
async def server() -> AsyncIterator[RunningServer]:
    try:
        Sandbox.open()
    except GymdError as failure:
        pytest.skip(str(failure))
    async with start_server(CodeGen, LIMITS, transport="in-process") as running:
        yield running


def answer(code: str) -> str:
    return f"I square it.\n```python\n{code}\n```\nThat is all."


def row(inputs: list[str], outputs: list[str], function: str | None = None, **more: Any) -> dict[str, Any]:
    tests = {"inputs": inputs, "outputs": outputs, "fn_name": function}
    return {
        "responses_create_params": {"input": "Write a program."},
        "verifier_metadata": {"unit_tests": tests, **more},
    }


SQUARES = row(["2\n", "5\n", "-3\n"], ["4\n", "25\n", "9\n"])
SQUARE = "n = int(input())\nprint(n * n)"

# A program that reads n and should print its square; what becomes of the three tests. Edge cases first.
SCRIPTS: list[tuple[str, list[bool | int]]] = [
    ("pass", [WRONG]),
    ("import os; os._exit(0)", [WRONG]),
    ("import sys; sys.exit()", [WRONG]),
    ("print('4')", [True, WRONG]),
    ("print(int(input()) + 2)", [True, WRONG]),
    ("print(abs(int(input())) ** 2, end='')", [True, True, True]),
    ("print('\\n\\n  ', int(input()) ** 2, '  \\n\\n')", [True, True, True]),  # white space around it
    ("print(float(int(input()) ** 2))", [True, True, True]),  # 4.0 is the same decimal number
    ("print(f'{int(input()) ** 2}.0e0')", [True, True, True]),
    ("print(int(input()) ** 2 + 1e-9)", [WRONG]),
    ("print(int(input()) ** 2, 0)", [WRONG]),  # one token more
    ("print(int(input()) ** 2); print(0)", [WRONG]),  # one line more
    ("print('four')", [WRONG]),
    (SQUARE, [True, True, True]),
    (SQUARE + "\nexit()", [True, True, True]),
    (SQUARE + "\nquit(3)", [True, True, True]),
    (SQUARE + "\nraise SystemExit('done')", [True, True, True]),
    (SQUARE + "\nimport os, sys; sys.stdout.flush(); os._exit(0)", [True, True, True]),
    (SQUARE + "\nimport os, sys; sys.stdout.flush(); os._exit(1)", [RUNTIME]),
    (SQUARE + "\n1 / 0", [RUNTIME]),  # a right output does not help
    (SQUARE + "\nsys.stdout.close()", [True, True, True]),
    ("n = int(input()\nprint(n)", [RUNTIME]),  # no Python
    ("\tn = 1\n  m = 2", [RUNTIME]),
    ("print(int(input()) ** 2)\0", [RUNTIME]),
    ("import no_such_module", [RUNTIME]),
    ("print(undefined)", [RUNTIME]),
    ("input(); input(); input()", [RUNTIME]),  # the input has ended
    ("raise KeyboardInterrupt", [RUNTIME]),
    ("import os; os.abort()", [RUNTIME]),
    ("print(sys.stdin.readline() and 4)", [True, WRONG]),
    ("def f(n): return n * n\nif __name__ == '__main__': print(f(int(input())))", [True, True, True]),
    ("if __name__ == '__main__':\n    print(int(input()) ** 2)\nx = 1", [True, True, True]),
    ("t = 0\ndef f(n):\n    global t\n    t += n * n\nf(int(input()))\nprint(t)", [True, True, True]),
    ("print(int(open(0).read()) ** 2)", [True, True, True]),
    ("print(int(open('/dev/stdin').read()) ** 2)", [True, True, True]),
    ("import os; os.write(1, b'%d' % int(os.read(0, 99)) ** 2)", [True, True, True]),
    ("for line in sys.stdin: print(int(line) ** 2)", [True, True, True]),
    ("print(*(int(l) ** 2 for l in sys.stdin.buffer.readlines()))", [True, True, True]),
    ("sys.stdout.buffer.write(b'%d' % int(input()) ** 2)", [True, True, True]),
    # Names that every program finds imported.
    ("print(math.prod(Counter({int(input()): 2}).elements()))", [True, True, True]),
    ("d: List[int] = defaultdict(int); print(reduce(mul, [int(stdin.readline())] * 2))", [True, True, True]),
    ("print(eval('pow')(int(input()), 2))", [True, True, True]),
    ("import numpy as np; print(np.square(int(input())))", [True, True, True]),
    ("class Solution:\n    def run(self): print(int(input()) ** 2)\nSolution().run()", [True, True, True]),
    # State does not pass from one test to the next.
    ("import os; print(int(input()) ** 2); os.chdir('/'); sys.setrecursionlimit(50)", [True, True, True]),
    ("from threading import *; Thread(target=lambda: print(int(input()) ** 2)).start()", [True, True, True]),
    ("import atexit; atexit.register(lambda: print(int(input()) ** 2))", [True, True, True]),
    ("d = lambda n: n and 1 + d(n - 1)\nprint(int(input()) ** 2 * d(40000) // 40000)", [True, True, True]),
    ("d = cache(lambda n: n and 1 + d(n - 1))\nd(20000); print(int(input()) ** 2)", [True, True, True]),
    ("import io\nsys.stdout = io.StringIO()\nprint(int(input()) ** 2)", [WRONG]),
    ("w = sys.stdout\nclass Fast:\n    text = ''\n    def write(self, t): self.text += t\n"
     "    def flush(self): w.write(self.text); self.text = ''\nsys.stdout = Fast()\nprint(int(input()) ** 2)",
     [True, True, True]),
]  # fmt: skip


async def check_table(
    server: RunningServer, task: dict[str, Any], table: list[tuple[str, list[bool | int]]]
) -> None:
    """Verifies all programs of a table at the same time."""
    rewards = await asyncio.gather(*(server.verify(task, answer(code)) for code, _ in table))
    for (code, result), reward in zip(table, rewards, strict=True):
        assert reward.extras.get("result", []) == result, f"{code}\n{reward.extras}"
        assert reward.value == float(result == [True] * 3), code


async def test_reward_table_of_scripts(server: RunningServer) -> None:
    await check_table(server, SQUARES, SCRIPTS)


ADDED = row(["1\n2", "[1, 2]\n[3]", '"a"\n"b"'], ["3", "[1, 2, 3]", '"ab"'], "joined")
DEF = "def joined(a, b):"

# A program with a function that joins its arguments; what becomes of the three tests.
FUNCTIONS: list[tuple[str, list[bool | int]]] = [
    ("", []),  # no code at all
    ("pass", [RUNTIME]),
    ("def other(a, b): return a + b", [RUNTIME]),
    (f"{DEF} pass", [False]),
    (f"{DEF} return 3", [True, False]),
    (f"{DEF} return 3.0000001 if a == 1 else a + b", [True, True, True]),  # close to it
    (f"{DEF} return 3.01 if a == 1 else a + b", [False]),
    (f"{DEF} return '3' if a == 1 else a + b", [True, True, True]),  # as a number it is 3
    (f"{DEF} return True + 2 if a == 1 else a + b", [True, True, True]),
    (f"{DEF} return a + b", [True, True, True]),
    (f"{DEF} return tuple(a) + tuple(b) if type(a) is list else a + b", [True, True, True]),
    (f"{DEF} return [(1, 2)] if type(a) is list else a + b", [True, False]),
    (f"{DEF} return {{1, 2, 3}} if type(a) is list else a + b", [True, False]),
    (f"{DEF} return iter(a) if type(a) is list else a + b", [True, False]),
    (f"{DEF} raise ValueError(a)", [RUNTIME]),
    (f"{DEF} sys.exit(0)", [RUNTIME]),
    (f"{DEF}\n    print('noise')\n    return a + b", [True, True, True]),
    ("class Solution:\n    def joined(self, a, b): return a + b", [True, True, True]),
    ("class Solution:\n    def other(self, a, b): return a + b\ndef joined(a, b): return a + b", [RUNTIME]),
    ("class Solution:\n    def __init__(self): 1 / 0", [RUNTIME]),
    ("joined = operator.add", [True, True, True]),
    ("joined = lambda *all: all[0] + all[1]", [True, True, True]),
    # The module is loaded once, as its authors expect: state stays.
    (f"n = []\n{DEF}\n    n.append(a)\n    return a + b if len(n) < 3 else len(n)", [True, True, False]),
    (f"import numpy as np\n{DEF} return np.int64(3) if a == 1 else a + b", [True, True, True]),
    (f"from decimal import Decimal\n{DEF} return Decimal(3) if a == 1 else a + b", [True, True, True]),
    (f"from fractions import Fraction\n{DEF} return Fraction(6, 2) if a == 1 else a + b", [True, True, True]),
    (f"{DEF}\n    x = []\n    for _ in range(100000): x = [x]\n    return x", [RUNTIME]),
    ("import os; os._exit(0)", [RUNTIME]),
    (f"{DEF} os_exit(0)", [RUNTIME]),
    ("def joined(a, b, c): return a", [RUNTIME]),
    ("async def joined(a, b): return a + b", [False]),
]  # fmt: skip


async def test_reward_table_of_functions(server: RunningServer) -> None:
    await check_table(server, ADDED, FUNCTIONS)


# What is taken for the program.
EXTRACTIONS = [
    ("", ""),
    ("print(1)", ""),
    ("```python\nprint(1)", ""),  # only one fence
    ("```python\nprint(1)\n```", "print(1)"),
    ("```\nprint(1)\n```", "print(1)"),
    ("```python\nfirst\n```\nor\n```python\nsecond\n```", "second"),  # the last two fences
    ("```python\nprint(1)\n```\nand ```this``` is inline", ""),  # an inline fence is one of the last two
    ("  ```py\n  x\n  ```  ", "  x"),
    ("```python\r\nx\r\n```", "x\r"),
    ("```python\n\n```", ""),
]


@pytest.mark.parametrize(("text", "code"), EXTRACTIONS)
def test_extraction(text: str, code: str) -> None:
    assert extract_code(text) == code


@pytest.mark.parametrize("text", ["", " \n ", "print(4)", "```python\nprint(4)"])
async def test_without_a_program_there_is_no_reward(server: RunningServer, text: str) -> None:
    reward = await server.verify(SQUARES, text)
    assert (reward.value, reward.extras) == (0.0, {"extracted_model_code": None, "difficulty": None})


async def test_outputs(server: RunningServer) -> None:
    task = row(["2\n"], ["4\n"], difficulty="hard")
    reward = await server.verify(task, answer("print(5)"))
    assert reward.extras == {
        "difficulty": "hard",
        "extracted_model_code": "print(5)",
        "result": [WRONG],
        "metadata": {
            "output": "5\n",
            "inputs": "2\n",
            "expected": "4\n",
            "error_code": WRONG,
            "error_message": "Wrong answer at output_line_idx=0: 5 != 4",
        },
        "reasoning_format_violation_rate": 0.0,
    }


async def test_a_runtime_error_is_shown(server: RunningServer) -> None:
    reward = await server.verify(SQUARES, answer("def f():\n    return 1 / 0\nf()"))
    metadata = reward.extras["metadata"]
    assert (metadata["error_code"], metadata["error_message"]) == (RUNTIME, "Runtime Error")
    assert metadata["error"] == "ZeroDivisionError('division by zero')"
    assert metadata["traceback"].splitlines()[1:3] == [
        '  File "<string>", line 3, in <module>',
        '  File "<string>", line 2, in f',
    ]
    metadata = (await server.verify(SQUARES, answer("print('x'"))).extras["metadata"]
    assert metadata["error_message"] == "Error during testing: '(' was never closed (<string>, line 1)"


async def test_time_limit_of_each_test() -> None:
    """Each test has two seconds; what a program of three tests makes of that."""
    slow = "import time; time.sleep(0.8)\n"  # 2.4 s in all
    scripts: list[tuple[str, list[bool | int]]] = [
        ("while True: pass", [TIME]),
        ("import time; time.sleep(60)", [TIME]),
        ("import os; os.kill(os.getpid(), 19)", [TIME]),
        (slow + SQUARE, [True, True, True]),
    ]
    functions: list[tuple[str, list[bool | int]]] = [
        (f"{DEF}\n    while b != 2: pass\n    return a + b", [True, TIME]),
        ("while True: pass", [RUNTIME]),  # it was not even loaded
    ]
    async with start_server(CodeGen, LIMITS | {"unit_test_timeout_secs": 2}) as server:
        tables = check_table(server, SQUARES, scripts), check_table(server, ADDED, functions)
        await asyncio.gather(*tables)


# Final answer, reasoning, whether the reasoning stands in the wrong place.
FORMATS = [
    (answer(SQUARE), "", False),
    (answer(SQUARE), "<think>Hm.</think>", False),
    (answer(SQUARE), "<think>Hm.</think><think>", True),
    (answer(SQUARE), "</think> </think>", True),
    ("<think>Hm.</think>" + answer(SQUARE), "", True),
    ("</think>" + answer(SQUARE), "", True),
    (answer(SQUARE + "  # <think>"), "", True),
    ("<think>", "", False),  # no program: nothing to penalise
]


@pytest.mark.parametrize(("text", "thought", "misplaced"), FORMATS)
async def test_reasoning_format(server: RunningServer, text: str, thought: str, misplaced: bool) -> None:
    response = make_response(*([reasoning(thought)] if thought else []), message(text))
    async with start_server(CodeGen, LIMITS | {"reasoning_format_penalty": -0.5}) as other:
        reward = await other.verify(SQUARES, response=response)
    right = float("```" in text)
    assert reward.value == (-0.5 if misplaced else right)
    assert reward.extras.get("reasoning_format_violation_rate", 0.0) == float(misplaced)
    assert (await server.verify(SQUARES, response=response)).value == (0.0 if misplaced else right)


async def test_tolerance_for_floats() -> None:
    task = row(["\n"], ["0.333333\n2"])
    async with start_server(CodeGen, LIMITS | {"float_tolerance": 1e-6}) as server:
        assert (await server.verify(task, answer("print(1 / 3); print(2)"))).value == 1.0
        assert (await server.verify(task, answer("print(1 / 3 + 1e-5); print(2)"))).value == 0.0
        assert (await server.verify(task, answer("print(1 / 3); print(3)"))).value == 0.0


BROKEN_ROWS: list[tuple[dict[str, Any], str]] = [
    (row([], []), "at least 1 item"),  # all of none would be right
    (row(["1", "2"], ["1"]), "2 inputs, but 1 outputs"),
    (row([["1"]], ["1"]), "valid string"),  # type: ignore[list-item]
    ({"responses_create_params": {"input": ""}}, "verifier_metadata"),
    ({"responses_create_params": {"input": ""}, "verifier_metadata": {}}, "unit_tests"),
    (row(["not json"], ["1"], "f"), "test 0"),
    (row(["1", "2"], ["1", "{"], "f"), "test 1"),
]


@pytest.mark.parametrize(("task", "words"), BROKEN_ROWS)
async def test_a_broken_row_is_an_error_and_no_reward(
    server: RunningServer, task: dict[str, Any], words: str
) -> None:
    call = server.verify(task, answer("def f(x): return x"))
    assert words in str(await expect_error("INVALID_REQUEST", call, "a broken row"))


async def test_large_outputs_are_compared_apart(server: RunningServer) -> None:
    lines = "".join(f"{n} {n}.0\n" for n in range(5000))
    task = row(["5000\n"], [lines])
    assert (await server.verify(task, answer("for n in range(int(input())): print(n, n)"))).value == 1.0
    assert (await server.verify(task, answer("for n in range(int(input())): print(n, n + 1)"))).value == 0.0
    numbers = [list(range(20_000))]
    task = row([json.dumps(numbers[0])], [json.dumps(numbers[0])], "same")
    assert (await server.verify(task, answer("def same(x): return x"))).value == 1.0


async def test_integers_of_many_digits(server: RunningServer) -> None:
    task = row(["20000\n"], ["1" + "0" * 20000 + "\n"])
    assert (await server.verify(task, answer("print(10 ** int(input()))"))).value == 1.0
    task = row(["20000"], ["1" + "0" * 20000], "power")
    assert (await server.verify(task, answer("def power(n): return 10 ** n"))).value == 1.0


def test_prelude_holds_what_a_program_may_need() -> None:
    assert needed_modules("n = int(input()); print(n)") == ("sys", "builtins")
    assert needed_modules("print(sqrt(2))") == ("math", "sys", "builtins")
    assert needed_modules("d: Dict = Counter()") == ("collections", "sys", "builtins", "typing")
    assert needed_modules("eval(input())") == MODULES


async def test_the_level_of_isolation_is_a_label(server: RunningServer) -> None:
    assert server.server.labels()["sandbox"].startswith("bubblewrap")


async def test_a_server_without_a_sandbox_refuses_to_start(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bwrap").write_text("#!/bin/sh\necho 'bwrap: no namespaces here' >&2; exit 1\n")
    (tmp_path / "bwrap").chmod(0o755)
    real = Sandbox.open
    monkeypatch.setattr(Sandbox, "open", lambda **options: real(**options, bwrap=tmp_path / "bwrap"))
    with pytest.raises(GymdError, match="no namespaces here"):
        async with start_server(CodeGen, LIMITS):
            pass
    async with start_server(CodeGen, LIMITS | {"allow_unsandboxed": True}) as other:
        assert other.server.labels()["sandbox"].startswith("none")
        assert (await other.verify(SQUARES, answer(SQUARE))).value == 1.0
        assert (await other.verify(SQUARES, answer("print(4)"))).extras["result"] == [True, WRONG]
        assert (await other.verify(ADDED, answer(f"{DEF} return a + b"))).value == 1.0


async def test_a_sandbox_that_breaks_is_an_error_and_no_reward(
    server: RunningServer, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = server.server
    assert isinstance(program, CodeGen)
    monkeypatch.setattr(program._box._bubblewrap, "binary", tmp_path / "gone")
    failure = await expect_error("SERVER_CODE_FAILED", server.verify(SQUARES, answer(SQUARE)), "no bwrap")
    assert "did not start" in str(failure)
    monkeypatch.undo()
    monkeypatch.setattr(program._box, "python", "/usr/bin/false")
    failure = await expect_error("SERVER_CODE_FAILED", server.verify(SQUARES, answer(SQUARE)), "no Python")
    assert "cannot run programs" in str(failure)


async def test_a_comparison_that_takes_too_long_is_an_error() -> None:
    lines = "1.0 2.0\n" * 50_000
    async with start_server(CodeGen, LIMITS | {"compare_timeout_s": 0.001}) as server:
        call = server.verify(row(["\n"], [lines]), answer("print('1 2\\n' * 50_000)"))
        await expect_error("DEADLINE_EXCEEDED", call, "a comparison without time")


@pytest.mark.parametrize(
    "config",
    [
        {"num_processes": 0},
        {"unit_test_timeout_secs": 0},
        {"memory_mb": 1},
        {"float_tolerance": -1},
        {"max_output_mb": 0},
        {"nested": 1},
    ],
)
async def test_a_wrong_configuration_is_named(config: dict[str, Any]) -> None:
    with pytest.raises(GymdError, match=next(iter(config))):
        async with start_server(CodeGen, config):
            pass


def scored(task: str, index: int, value: float, code: str | None, difficulty: str | None) -> ScoredRollout:
    rollout = ScoredRollout(task_id=task, index=index)
    rollout.reward.value = value
    extras = {"extracted_model_code": code, "difficulty": difficulty}
    rollout.reward.extras_json = orjson.dumps(extras).decode()
    return rollout


async def test_metrics(server: RunningServer) -> None:
    metrics, key_metrics = await server.aggregate(
        [
            scored("x", 0, 1.0, "a", "easy"),
            scored("x", 1, 1.0, "a", "easy"),
            scored("y", 0, 0.0, "b", "hard"),
            scored("y", 1, 1.0, "c", "hard"),
            scored("z", 0, 0.0, None, None),
            scored("z", 1, 0.0, "d", None),
        ]
    )
    assert metrics["mean_reward"] == pytest.approx(0.5)
    assert metrics["pass@1/accuracy"] == pytest.approx(50.0)
    assert metrics["pass@2/accuracy"] == pytest.approx(200 / 3)
    assert metrics["pass@1[avg-of-2]/no_answer"] == pytest.approx(100 / 6)
    assert metrics["easy/pass@1/accuracy"] == 100.0
    assert metrics["hard/pass@1[avg-of-2]/accuracy"] == 50.0
    assert metrics["hard/majority@2/accuracy"] == 50.0
    assert key_metrics == [
        "mean_reward",
        "pass@1/accuracy",
        "pass@1[avg-of-2]/accuracy",
        "majority@2/accuracy",
        "pass@2/accuracy",
        "pass@1[avg-of-2]/no_answer",
        "pass@2/no_answer",
        "easy/pass@1[avg-of-2]/accuracy",
        "hard/pass@1[avg-of-2]/accuracy",
    ]
    assert await server.aggregate([]) == ({"count": 0}, [])
