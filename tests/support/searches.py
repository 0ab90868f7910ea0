"""Sizes of searches for counterexamples, in whole and in quick runs."""

from __future__ import annotations

import pytest
from _pytest.mark import ParameterSet
from hypothesis import settings

_FULL = 100  # hypothesis's default number of examples
_LEAST = 5
_QUICK_SEEDS = 4


def search(examples: int) -> settings:
    """Return the settings of a search with that many examples, or fewer under a profile with fewer."""
    share = settings().max_examples / _FULL
    return settings(max_examples=max(_LEAST, round(examples * share)), print_blob=True)


def seeds(number: int) -> list[int | ParameterSet]:
    """Return that many seeds for random cases, all but the first few marked slow."""
    return [seed if seed < _QUICK_SEEDS else pytest.param(seed, marks=pytest.mark.slow) for seed in range(number)]
