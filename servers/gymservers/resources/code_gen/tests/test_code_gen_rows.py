"""Whole rows: our own and the published ones, with programs that solve them; and many at the same time."""

import asyncio
import json
import textwrap
from pathlib import Path
from typing import Any

import pytest

from gymd.errors import GymdError
from gymd.sdk.sandbox import Sandbox
from gymd.sdk.testing import check_resources_server, start_server
from gymservers.resources.code_gen.server import CodeGen

HERE = Path(__file__).resolve().parent
EXAMPLES = [json.loads(line) for line in (HERE.parent / "data" / "example.jsonl").read_text().splitlines()]
SHARED = HERE.parents[4].parent / "shared" / "data" / "code_gen" / "example.jsonl"
CONFIG = {"unit_test_timeout_secs": 20, "packages": []}

# Programs that solve the example rows, by hash_id.
SOLUTIONS = {
    "gymd-code-gen-1": """
        for _ in range(int(input())):
            n, k = map(int, input().split())
            print(-(-n // k))
    """,
    "gymd-code-gen-2": """
        input()
        inside = list(accumulate(map(int, input().split())))
        print(max(inside))
        print(f"{mean(inside):.3f}")
    """,
    "gymd-code-gen-3": """
        import sys
        from collections import deque

        def main():
            r, c = map(int, sys.stdin.readline().split())
            grid = [sys.stdin.readline().strip() for _ in range(r)]
            start = next((i, j) for i in range(r) for j in range(c) if grid[i][j] == "S")
            seen, todo = {start: 0}, deque([start])
            while todo:
                i, j = todo.popleft()
                if grid[i][j] == "G":
                    return seen[i, j]
                for place in ((i + 1, j), (i - 1, j), (i, j + 1), (i, j - 1)):
                    inside = 0 <= place[0] < r and 0 <= place[1] < c
                    if inside and grid[place[0]][place[1]] != "#" and place not in seen:
                        seen[place] = seen[i, j] + 1
                        todo.append(place)
            return "closed"

        if __name__ == "__main__":
            print(main())
    """,
    "gymd-code-gen-4": """
        def longest_climb(heights: List[int]) -> int:
            best = run = 0
            for place, height in enumerate(heights):
                run = run + 1 if place and height > heights[place - 1] else 1
                best = max(best, run)
            return best
    """,
    "gymd-code-gen-5": """
        class Solution:
            def pairWithSum(self, numbers: List[int], target: int) -> List[int]:
                seen = {}
                for j, number in enumerate(numbers):
                    if target - number in seen:
                        return (seen[target - number], j)
                    seen[number] = j
    """,
    # The published rows.
    "c69268d8bdb4da0685d7b187c88296c1": """
        import sys
        lines = iter(sys.stdin.read().split())
        for _ in range(int(next(lines))):
            words = [next(lines) for _ in range(int(next(lines)))]
            kinds = {}
            for number, word in enumerate(words, 1):
                kinds.setdefault(word[0] + word[-1], []).append(number)
            rising, falling = kinds.get("01", []), kinds.get("10", [])
            if not rising and not falling and "00" in kinds and "11" in kinds:
                print(-1)
                continue
            more, known = max(rising, falling, key=len), set(words)
            wanted = abs(len(rising) - len(falling)) // 2
            free = [number for number in more if words[number - 1][::-1] not in known]
            print(wanted)
            print(*free[:wanted])
    """,
    "570676e22bd21c28e452486b0668ec74": """
        for _ in range(int(input())):
            n, m, k = map(int, input().split())
            far = max(n, m)
            print(-1 if far > k else k - 1 if (n + m) % 2 else k - 2 if (k - far) % 2 else k)
    """,
    "ff86821ed6f7260c7a17c4c9be03b663": """
        for _ in range(int(input())):
            n = int(input())
            choices = list(zip(*(map(int, input().split()) for _ in range(3))))
            taken = []
            for place, choice in enumerate(choices):
                others = {taken[-1] if taken else 0, taken[0] if place == n - 1 else 0}
                taken.append(next(value for value in choice if value not in others))
            print(*taken)
    """,
    "f3e3b9f12d602bf80fdcd2c08a2f417f": """
        for _ in range(int(input())):
            n, k = map(int, input().split())
            print(sum(sorted(map(int, input().split()), reverse=True)[: k + 1]))
    """,
    "1a54a91d7294e33bed666e3bc94148fd": """
        for _ in range(int(input())):
            n = int(input())
            where = sorted(range(n), key=list(map(int, input().split())).__getitem__)
            low, high, beautiful = n, 0, ""
            for m, place in enumerate(where):
                low, high = min(low, place), max(high, place)
                beautiful += str(int(high - low == m))
            print(beautiful)
    """,
}

CONTRADICTORY = {"ff86821ed6f7260c7a17c4c9be03b663": [True, True, -2]}
"""A row whose first two tests expect a line for each case and whose third wants all in one: nobody passes."""


def solved(row: Any) -> str:
    """An answer with the program that solves a row."""
    return f"So:\n```python\n{textwrap.dedent(SOLUTIONS[row['hash_id']]).strip()}\n```"


@pytest.fixture(autouse=True)
def sandbox() -> None:
    try:
        Sandbox.open()
    except GymdError as failure:
        pytest.skip(str(failure))


async def test_conformance() -> None:
    bad = "```python\ndef longest_climb(heights): return 1\ndef pairWithSum(a, b): return 1\nprint(3)\n```"
    await check_resources_server(CodeGen, CONFIG, rows=EXAMPLES, good=solved, bad=bad)


async def test_published_rows() -> None:
    if not SHARED.exists():
        pytest.skip(f"no {SHARED}")
    rows = [json.loads(line) for line in SHARED.read_text().splitlines()]
    async with start_server(CodeGen, CONFIG) as server:
        rewards = await asyncio.gather(*(server.verify(row, solved(row)) for row in rows))
        others = await asyncio.gather(*(server.verify(row, solved(EXAMPLES[0])) for row in rows))
    for row, reward in zip(rows, rewards, strict=True):
        tests = len(row["verifier_metadata"]["unit_tests"]["inputs"])
        result = CONTRADICTORY.get(row["hash_id"], [True] * tests)
        assert reward.extras["result"] == result, reward.extras["metadata"]
        assert reward.value == float(row["hash_id"] not in CONTRADICTORY)
    assert [reward.value for reward in others] == [0.0] * len(rows)


@pytest.mark.parametrize("transport", ["link", "plain"])
async def test_64_at_once(transport: Any) -> None:
    """Right and wrong programs side by side, each with its own number."""
    async with start_server(CodeGen, CONFIG | {"num_processes": 16}, transport=transport) as server:

        async def one(number: int) -> tuple[int, Any]:
            tests = {"inputs": [f"{number}\n"], "outputs": [f"{number * 2}\n"]}
            task = {"responses_create_params": {"input": ""}, "verifier_metadata": {"unit_tests": tests}}
            wrong = number % 3 == 0
            code = f"```\nprint(int(input()) * 2 + {int(wrong)})\n```"
            reward = await server.verify(task, code)
            assert reward.value == float(not wrong)
            return number, reward.extras["metadata"].get("output")

        found = dict(await asyncio.gather(*(one(number) for number in range(64))))
    assert found == {n: None if n % 3 else f"{n * 2 + 1}\n" for n in range(64)}
