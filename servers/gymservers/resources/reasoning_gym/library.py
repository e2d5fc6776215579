"""The library, imported without its noise. It takes seconds, so the server process never does it."""

from __future__ import annotations

import warnings

with warnings.catch_warnings():
    # Of a package that it needs, each time that it is compiled.
    warnings.simplefilter("ignore", SyntaxWarning)
    import reasoning_gym

from reasoning_gym.composite import DatasetSpec
from reasoning_gym.factory import DATASETS

__all__ = ["DATASETS", "MIX", "DatasetSpec", "create_dataset", "names"]

MIX = "composite"
"""The data set that draws from others."""

create_dataset = reasoning_gym.create_dataset


def names() -> list[str]:
    """All data sets but the mix, sorted."""
    return sorted(name for name in DATASETS if name != MIX)
