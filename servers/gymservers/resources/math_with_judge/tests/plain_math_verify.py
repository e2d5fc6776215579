"""math-verify called as NeMo Gym calls it: pairs of expected answer and text on stdin, results on stdout.

An oracle for tests, in a process of its own, because math-verify's time limits take the process's alarm.
"""

import json
import logging
import signal
import sys
from typing import Any

from math_verify.metric import math_metric
from math_verify.parser import ExprExtractionConfig, LatexExtractionConfig

# Its limits in CPU time: a busy machine must not change what the oracle says.
setattr(signal, "SIGALRM", signal.SIGPROF)  # noqa: B010 - a constant to the type checker
setattr(signal, "alarm", lambda seconds: signal.setitimer(signal.ITIMER_PROF, seconds))  # noqa: B010

METRIC = math_metric(
    gold_extraction_target=(LatexExtractionConfig(),),
    pred_extraction_target=(ExprExtractionConfig(), LatexExtractionConfig()),
)


def stripped(text: str) -> str:
    """Without math delimiters."""
    text = text.strip()
    if text.startswith("\\(") and text.endswith("\\)"):
        text = text[2:-2].strip()
    if text.startswith("$") and text.endswith("$") and len(text) > 1:
        text = text[1:-1].strip()
    return text


def result(expected: str, text: str) -> tuple[float | None, str | None]:
    """Reward and extracted answer; None for the reward if the expected answer cannot be read."""
    try:
        reward, found = METRIC(["\\boxed{" + stripped(expected) + "}"], [text])
    except ValueError:
        return None, None
    golds, predictions = found or ([], [])
    equal = (one for one in predictions if one.strip() and one.strip() in {gold.strip() for gold in golds})
    return reward, next(equal, predictions[0] if predictions else None)


def main() -> None:
    """Answers all pairs."""
    logging.getLogger("math_verify").setLevel(logging.CRITICAL)
    pairs: Any = json.load(sys.stdin)
    json.dump([result(*pair) for pair in pairs], sys.stdout)


if __name__ == "__main__":
    main()
