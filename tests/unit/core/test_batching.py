"""Batching of reports, against `docs/understand/simulation.md`, "Read-through entries"."""

from __future__ import annotations

import pytest

from burstcache.core.batching import MAX_BATCH_AGE_US, MIN_BATCH_AGE_US, BatchRule, batch_rule
from burstcache.core.prices import price_sheet
from burstcache.core.worth import MICRO, Worth, reading_prices, tier_prices, wait_usd_from_text

EAST = price_sheet("today-us-east-1")


def rule(per_million: str, *, has_express: bool = False) -> BatchRule:
    return batch_rule(Worth(wait_usd_from_text(per_million), reading_prices(EAST, has_express=has_express)))


@pytest.mark.parametrize(("per_million", "requests"), [("0", 54), ("1", 16), ("10", 3), ("100", 1)])
def test_the_less_a_hit_saves_the_more_requests_are_worth_a_report(per_million: str, requests: int) -> None:
    found = rule(per_million)

    assert found.is_due(age_us=MIN_BATCH_AGE_US, weight=requests * MICRO)
    assert not found.is_due(age_us=MIN_BATCH_AGE_US, weight=(requests - 1) * MICRO)


def test_reports_gather_for_ten_seconds_at_least_and_five_minutes_at_most() -> None:
    assert not rule("100").is_due(age_us=MIN_BATCH_AGE_US - 1, weight=10**12)
    assert rule("0").is_due(age_us=MAX_BATCH_AGE_US, weight=1)
    assert not rule("0").is_due(age_us=MAX_BATCH_AGE_US - 1, weight=1)


def test_requests_that_copies_in_express_serve_weigh_less() -> None:
    served = {"key": "k", "requests": ["1:r", "2:r"], "size_bytes": 4_096, "etag": "", "left_out": 3}
    plain, above_express = rule("1"), rule("1", has_express=True)

    assert plain.weight_of({"keys": [served]}) == 5 * MICRO  # type: ignore[list-item]
    assert 0 < above_express.weight_of({"keys": [served]}) < MICRO  # type: ignore[list-item]


def test_a_reader_weighs_as_the_simulator_does() -> None:
    all_prices = tier_prices(EAST, node_type="r7g.large", cache_memory_mb=512, has_express=True)

    assert batch_rule(Worth(wait_usd_from_text("7"), all_prices)).threshold == rule("7", has_express=True).threshold
