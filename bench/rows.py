"""Rows to measure with: tasks of 1 kB and rollouts of 5 kB. The same call gives the same file."""

from __future__ import annotations

from itertools import accumulate
from pathlib import Path
from random import Random
from typing import Any

import orjson

__all__ = ["write_rollouts", "write_tasks"]

_SYLLABLES = (
    "ka lo mi ter ran sol be du fi gan hor in ju kel lu mas nor op pra qui res sta tu ul ver wen xi zem"
)
_VOCABULARY = 30_000
_SENTENCES = 50_000
_SENTENCE_WORDS = 10
_NUMBERS = 0.04
# One word in six has a sign behind it, as in prose; one in forty ends a line.
_ENDINGS = [*[" "] * 33, ", ", ", ", ", ", ". ", "? ", ": ", ".\n"]


class _Prose:
    """Text of sentences, whose words are as frequent as those of a language: by Zipf's law."""

    def __init__(self) -> None:
        self._random = Random(0)
        pick, syllables = self._random.choices, _SYLLABLES.split()
        words = ["".join(pick(syllables, k=self._random.randint(1, 4))) for _ in range(_VOCABULARY)]
        weights = list(accumulate(1 / (rank + 3) for rank in range(_VOCABULARY)))
        drawn = iter(pick(words, cum_weights=weights, k=_SENTENCES * _SENTENCE_WORDS))
        self._sentences = [
            "".join(self._word(next(drawn)) for _ in range(_SENTENCE_WORDS)) for _ in range(_SENTENCES)
        ]

    def _word(self, word: str) -> str:
        if self._random.random() < _NUMBERS:
            word = str(self._random.randrange(10_000))
        return word + self._random.choice(_ENDINGS)

    def text(self, sentences: int) -> str:
        return "".join(self._random.choices(self._sentences, k=sentences)).strip()


def write_tasks(path: Path, count: int) -> None:
    """Multiple-choice tasks with a question of 80 words."""
    prose, random = _Prose(), Random(1)
    with path.open("wb") as file:
        for number in range(count):
            file.write(orjson.dumps(_task(prose, random, number)) + b"\n")


def _task(prose: _Prose, random: Random, number: int) -> dict[str, Any]:
    return {
        "responses_create_params": {
            "input": [
                {
                    "role": "developer",
                    "content": "Answer with the letter of the right option.",
                },
                {"role": "user", "content": prose.text(8)},
            ],
            "temperature": random.choice([0.6, 1.0]),
            "max_output_tokens": 2048,
        },
        "options": [{letter: prose.text(1)[:20]} for letter in "ABCD"],
        "expected_answer": random.choice("ABCD"),
        "grading_mode": "strict_single_letter_boxed",
        "uuid": f"{random.getrandbits(128):032x}",
        "difficulty": random.random(),
        "metadata": {"source": "made", "index": number},
    }


def write_rollouts(path: Path, count: int, repeats: int = 8) -> None:
    """Scored rollouts of such tasks, `repeats` of each: thoughts, a tool call with its output, an answer."""
    prose, random = _Prose(), Random(1)
    task: dict[str, Any] = {}
    with path.open("wb") as file:
        for number in range(count):
            task_index, rollout_index = divmod(number, repeats)
            if rollout_index == 0:
                task = _task(prose, random, task_index)
            reward = float(random.random() < 0.4)
            row = {
                "_ng_task_index": task_index,
                "_ng_rollout_index": rollout_index,
                "reward": reward,
                **task,
                "agent_ref": {"type": "responses_api_agents", "name": "agent"},
                "response": _response(prose, random, number),
                "rollout": {
                    "agent": "agent",
                    "outcome": "completed",
                    "model_calls": 2,
                    "tool_calls": 1,
                    "timing": {"seconds": 1 + 9 * random.random()},
                },
            }
            file.write(orjson.dumps(row) + b"\n")


def _response(prose: _Prose, random: Random, number: int) -> dict[str, Any]:
    call_id = f"call_{number}"
    return {
        "id": f"resp_{number}",
        "object": "response",
        "output": [
            {
                "type": "reasoning",
                "id": f"rs_{number}",
                "summary": [{"type": "summary_text", "text": prose.text(25)}],
            },
            {"type": "function_call", "call_id": call_id, "name": "look_up", "arguments": '{"page": 7}'},
            {"type": "function_call_output", "call_id": call_id, "output": prose.text(15)},
            {
                "type": "message",
                "id": f"msg_{number}",
                "role": "assistant",
                "status": "completed",
                "content": [{"type": "output_text", "text": prose.text(12), "annotations": []}],
            },
        ],
        "usage": {"input_tokens": 900, "output_tokens": random.randrange(100, 2000), "total_tokens": 2000},
    }
