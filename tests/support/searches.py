"""How long a test searches for a counterexample, and how long a quick run of it."""

from __future__ import annotations

import pytest
from _pytest.mark import ParameterSet
from hypothesis import settings

_FULL = 100  # examples of a test that does not say how many: hypothesis's own default
_LEAST = 5
_QUICK_SEEDS = 4


def search(examples: int) -> settings:
    """Return the settings of a search among that many examples, or among fewer where the profile has fewer."""
    share = settings().max_examples / _FULL
    return settings(max_examples=max(_LEAST, round(examples * share)), print_blob=True)


def seeds(number: int) -> list[int | ParameterSet]:
    """Return the seeds of as many random cases, all but the first few as slow."""
    return [seed if seed < _QUICK_SEEDS else pytest.param(seed, marks=pytest.mark.slow) for seed in range(number)]
