"""Detection of growth in the course of a run."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from benchmarks.support.growth import Sample, growths, quarters

_STEADY = Sample(at_s=0.0, processes=20, memory_mb=500.0, each_mb=40.0, sockets=300, files=200, rows=90)


def test_what_is_steady_or_grows_in_the_first_quarter_has_not_grown() -> None:
    cold = replace(_STEADY, processes=5, memory_mb=100.0, sockets=20, files=20, rows=0)

    assert growths([cold] * 2 + [_STEADY] * 6) == []


@pytest.mark.parametrize(
    ("changes", "growth"),
    [
        ({"processes": 24}, "processes grew from 20.0 to 24.0"),
        ({"memory_mb": 560.0}, "memory_mb grew from 500.0 to 560.0"),
        ({"each_mb": 45.0}, "each_mb grew from 40.0 to 45.0"),
        ({"sockets": 340}, "sockets grew from 300.0 to 340.0"),
        ({"files": 240}, "files grew from 200.0 to 240.0"),
        ({"rows": 120}, "rows grew from 90.0 to 120.0"),
    ],
)
def test_a_figure_that_is_higher_in_the_last_quarter_than_in_the_second_has_grown(
    changes: dict[str, Any], growth: str
) -> None:
    assert growths([_STEADY] * 6 + [replace(_STEADY, **changes)] * 2) == [growth]


def test_what_is_taken_for_a_while_is_no_growth_and_a_leak_is() -> None:
    busy = replace(_STEADY, processes=40, memory_mb=900.0)
    leak = [replace(_STEADY, files=200 + 2 * minute) for minute in range(60)]

    assert growths([_STEADY] * 6 + [busy, _STEADY]) == []
    assert growths(leak) == ["files grew from 230.0 to 290.0"]


def test_too_few_samples_are_an_error_and_not_a_run_without_growth() -> None:
    with pytest.raises(ValueError, match="3 samples: expected at least 4"):
        quarters([_STEADY] * 3)
