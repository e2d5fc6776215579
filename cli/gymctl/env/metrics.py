"""The metrics of the example rows: those of `gymctl data prepare --mode example_validation`."""

from __future__ import annotations

import json
from typing import Any

from pydantic import ValidationError

from gymctl.env.environment import EXAMPLE_METRICS, EXAMPLES, Environment
from gymctl.errors import CliError
from gymctl.prepare.chunks import find_span
from gymctl.prepare.compare import differences
from gymctl.prepare.measure import TOKENS, TOOL_TOKENS
from gymctl.prepare.metrics import TOKENIZER, Metrics
from gymctl.prepare.tokenizer import TokenizerFile
from gymctl.prepare.worker import measure_all
from gymd.config import DatasetConfig

__all__ = ["example_metrics", "metrics_differences"]


def example_metrics(environment: Environment, tokenizer: TokenizerFile | None) -> dict[str, Any]:
    """The metrics of the example rows, with the dataset's block in front.

    Args:
        tokenizer: None leaves token counts out.

    Raises:
        CliError: the configuration has no sound dataset of type example, or the file cannot be read.
    """
    dataset = _dataset(environment)
    span = find_span(environment.path(EXAMPLES), dataset.start_idx, dataset.end_idx)
    measured, metrics = Metrics(), Metrics()
    for report in measure_all(span.chunks(), 0, tokenizer.path if tokenizer else None):
        measured.add(report)
    metrics.merge(measured, dataset.num_repeats)
    about = dataset.model_dump(mode="json", exclude_none=True)
    return about | metrics.document(tokenizer.name if tokenizer else None)


def _dataset(environment: Environment) -> DatasetConfig:
    for block in environment.datasets:
        if block.get("type") == "example":
            try:
                return DatasetConfig.model_validate(block)
            except ValidationError:
                hint = f"Check it: gymctl env test {environment.argument} --no-tests"
                raise CliError(f"{environment.config}: the dataset of type example is wrong", hint) from None
    hint = (
        f"List it in the agent's block: datasets: [{{name: example, type: example, jsonl_fpath: {EXAMPLES}}}]"
    )
    raise CliError(f"{environment.config} has no dataset of type example", hint)


def metrics_differences(environment: Environment, new: dict[str, Any]) -> list[str]:
    """What the file on the disk says otherwise; token counts are left out where `new` has none.

    Raises:
        FileNotFoundError: there is no such file.
    """
    try:
        old = json.loads(environment.path(EXAMPLE_METRICS).read_bytes())
    except ValueError:
        return ["the file is no JSON"]
    if TOKENIZER not in new and isinstance(old, dict):
        old = {key: value for key, value in old.items() if key not in (TOKENIZER, TOKENS, TOOL_TOKENS)}
    return differences(old, new)
