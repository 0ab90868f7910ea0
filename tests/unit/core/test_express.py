"""When a copy in S3 Express pays, and how long it waits for a read."""

from __future__ import annotations

import pytest

from burstcache.core.errors import PriceMissingError
from burstcache.core.express import LEAST_US, LONGEST_US, express_rule
from burstcache.core.prices import price_sheet

TODAY = price_sheet("today-us-east-1")
GB = 1024**3


@pytest.mark.parametrize(
    ("hit_value_usd", "size_bytes", "copied_at"),
    [
        (0, 4_000, 4), (0, 100_000, 5), (0, 250_000, 9), (0, 500_000, 30), (0, 663_000, 0),
        (1e-6, 4_000, 1), (1e-6, 100_000, 2), (1e-6, 250_000, 2), (1e-6, 500_000, 3),
        (1e-5, 2_000_000, 1), (1e-5, 20_000_000, 0),
    ],
)  # fmt: skip
def test_an_object_is_copied_at_the_read_at_which_the_prices_say_so(
    hit_value_usd: float, size_bytes: int, copied_at: int
) -> None:
    assert express_rule(TODAY, hit_value_usd=hit_value_usd).copy_at(size_bytes) == copied_at


def test_copying_at_the_k_th_read_costs_no_more_than_those_reads_would_have_saved() -> None:
    rule = express_rule(TODAY, hit_value_usd=1e-6)

    for size_bytes in range(0, 1_500_000, 10_007):
        if count := rule.copy_at(size_bytes):
            assert (count - 1) * rule.saved_usd(size_bytes) < rule.copy_usd(size_bytes)
            assert count * rule.saved_usd(size_bytes) >= rule.copy_usd(size_bytes)


def test_a_copy_waits_until_half_of_what_it_cost_and_saves_has_gone_into_rent() -> None:
    rule = express_rule(TODAY, hit_value_usd=0)
    rent_usd_per_h = 0.11 / 730 * 100_000 / GB
    copy_usd = 1.13e-6 + 0.0032 * 100_000 / GB + rent_usd_per_h
    saved_usd = 0.37e-6 - 0.0006 * 100_000 / GB

    assert rule.drop_after_us(100_000) == pytest.approx(0.5 * (copy_usd + saved_usd) / rent_usd_per_h * LEAST_US)


def test_an_empty_object_is_never_dropped() -> None:
    assert express_rule(TODAY, hit_value_usd=0).drop_after_us(0) == LONGEST_US


def test_a_sheet_without_prices_of_express_has_no_rule() -> None:
    with pytest.raises(PriceMissingError, match="s3-express"):
        express_rule(price_sheet("today-eu-central-1"), hit_value_usd=0)
