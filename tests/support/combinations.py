"""Choice of the combinations of answers that a quick run covers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from random import Random

import pytest
from _pytest.mark import ParameterSet

Answers = Mapping[str, str]


def pairs_first(every: Sequence[Answers]) -> list[Answers | ParameterSet]:
    """Return all combinations, marked slow where every pair of answers also occurs in a chosen one (pairwise cover)."""
    met: set[tuple[tuple[str, str], ...]] = set()
    chosen = []
    for answers in Random(1).sample(every, len(every)):
        pairs = set(combinations(answers.items(), 2))
        if not pairs <= met:
            met |= pairs
            chosen.append(answers)
    return [answers if answers in chosen else pytest.param(answers, marks=pytest.mark.slow) for answers in every]
