"""A softmax policy in numpy. It answers with two tokens: how to write the answer, and a letter.

It knows nothing at first: not which of three ways of writing the verifier reads, and no capital.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from questions import LETTERS

from gymd.client import GenerateCall, Generated

__all__ = ["Policy", "Sample"]

FORMS = ("\\boxed{%s}", "Answer: %s", "I choose %s")
FIRST_WORD = len(FORMS) + len(LETTERS)
"""Token ids: the forms, the letters, then words as they are met."""
TABLE = 1 << 16
"""Weights of pairs of words, one of the question and one of a choice."""

Floats = NDArray[np.float64]


@dataclass
class Sample:
    """One rollout, as its trajectory tells it."""

    prompt_ids: list[int]
    sampled_ids: list[int]
    logprobs: list[float]
    """When they were sampled."""
    advantage: float


class Policy:
    """P(form) times P(letter | question, choices); a letter's score sums the weights of its word pairs."""

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)
        self._words: dict[str, int] = {}
        self._forms: Floats = np.zeros(len(FORMS))
        self._pairs: Floats = np.zeros(TABLE)
        # Calls are answered in a thread of the client's, updates are made in the caller's.
        self._lock = threading.Lock()
        self._line_break = self._id("\n")

    def generate(self, call: GenerateCall) -> Generated:
        """Answers one model call."""
        prompt = self._tokenize(call.messages[-1]["content"])
        with self._lock:
            log_forms, log_letters = self._log_probabilities(prompt)
            form = int(self._rng.choice(len(FORMS), p=np.exp(log_forms)))
            letter = int(self._rng.choice(len(LETTERS), p=np.exp(log_letters)))
        return Generated(
            FORMS[form] % LETTERS[letter],
            prompt_token_ids=prompt,
            token_ids=[form, len(FORMS) + letter],
            logprobs=[float(log_forms[form]), float(log_letters[letter])],
        )

    def update(self, samples: Sequence[Sample], learning_rate: float) -> None:
        """One step up the policy gradient: the mean of advantage x ratio x gradient of log-probability."""
        with self._lock:
            forms, pairs = np.zeros_like(self._forms), np.zeros_like(self._pairs)
            for sample in samples:
                form, letter = sample.sampled_ids[0], sample.sampled_ids[1] - len(FORMS)
                features = _features(tuple(sample.prompt_ids), self._line_break)
                log_forms, log_letters = self._log_probabilities(sample.prompt_ids)
                ratio = np.exp(log_forms[form] + log_letters[letter] - sum(sample.logprobs))
                weight = sample.advantage * min(float(ratio), 2.0) / len(samples)
                forms += weight * (_one(form, len(FORMS)) - np.exp(log_forms))
                push = weight * (_one(letter, len(LETTERS)) - np.exp(log_letters))
                for places, amount in zip(features, push, strict=True):
                    np.add.at(pairs, places, amount)
            self._forms += learning_rate * forms
            self._pairs += learning_rate * pairs

    def _log_probabilities(self, prompt: Sequence[int]) -> tuple[Floats, Floats]:
        features = _features(tuple(prompt), self._line_break)
        scores = np.array([self._pairs[places].sum() for places in features])
        return _log_softmax(self._forms), _log_softmax(scores)

    def _tokenize(self, text: str) -> list[int]:
        return [self._id(word) for word in re.findall(r"\w+|[^\w ]", text)]

    def _id(self, word: str) -> int:
        return self._words.setdefault(word, FIRST_WORD + len(self._words))


@lru_cache(maxsize=1024)
def _features(prompt: tuple[int, ...], line_break: int) -> list[NDArray[np.int64]]:
    """For each choice, the places in the table of the pairs of its words with those of the question."""
    lines: list[list[int]] = [[]]
    for token in prompt:
        if token == line_break:
            lines.append([])
        else:
            lines[-1].append(token)
    question = np.array(lines[0])
    choices = [np.array(line[2:]) for line in lines[1:]]  # without the letter and its colon
    return [((question[:, None] * 40_503 + choice * 2_654_435_761) % TABLE).ravel() for choice in choices]


def _one(at: int, size: int) -> Floats:
    found = np.zeros(size)
    found[at] = 1.0
    return found


def _log_softmax(scores: Floats) -> Floats:
    shifted = scores - scores.max()
    result: Floats = shifted - np.log(np.exp(shifted).sum())
    return result
