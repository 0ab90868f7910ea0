"""Histograms of latencies and counts in slots of time."""

from __future__ import annotations

from collections import Counter

import pytest

from burstcache_dashboard.measured import Latencies, Slots


@pytest.mark.parametrize(("share", "expected_ms"), [(0.5, 500), (0.9, 900), (0.99, 990)])
def test_percentile_is_within_the_width_of_a_bucket(share: float, expected_ms: float) -> None:
    latencies = Latencies()
    for latency_ms in range(1, 1001):
        latencies.add(latency_ms)

    assert latencies.percentile_ms(share) == pytest.approx(expected_ms, rel=0.05)


def test_no_read_has_no_percentile() -> None:
    assert Latencies().percentile_ms(0.5) is None


def test_slots_keep_the_newest_and_take_what_comes_late() -> None:
    slots = Slots(slot_s=2, most=2)
    for at_s in (0, 2, 4, 3.9, 1):
        slots.add(at_s, "s3")

    assert list(slots) == [(2, Counter(s3=2)), (4, Counter(s3=1))]


def test_a_slow_read_has_its_slot_though_no_other_was_there() -> None:
    slots = Slots(slot_s=2, most=9)
    for at_s in (0, 4, 2):
        slots.add(at_s, "s3")

    assert [start for start, _ in slots] == [0, 2, 4]
