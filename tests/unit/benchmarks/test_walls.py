"""The prediction that the walls of a local run are held against."""

from __future__ import annotations

import pytest

from benchmarks.walls import due_s, predicted_per_s


def test_ten_units_take_forty_reads_of_a_quarter_of_a_second() -> None:
    per_s, part = predicted_per_s(250)

    assert per_s == pytest.approx(40)
    assert part == "Lambda, concurrent executions"


def test_short_reads_meet_the_rate_of_synchronous_invocations_first() -> None:
    assert predicted_per_s(10) == (100, "Lambda, synchronous invocations")


def test_reads_come_at_their_rate() -> None:
    assert due_s(4, 1.0, is_random=False) == [0, 0.25, 0.5, 0.75]
    random = due_s(1_000, 10.0, is_random=True)
    assert random == sorted(random)
    assert random[-1] == pytest.approx(10, rel=0.05)
