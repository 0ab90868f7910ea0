"""Published money: the thesis's table A.1 and table 5.2, InfiniCache's cost model."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from burstcache_sim.bill.infinicache import InfiniCache, infinicache_hour
from burstcache_sim.thesis.bursts import PRICES, row_bill, table_5_2_row
from burstcache_sim.thesis.published import S3_ONLY_REQUESTS, S3_ONLY_USD, TABLE_5_2, TABLE_A1, BurstRow

# InfiniCache's own prices: 100 ms, us-east-1; one cache.r5.24xlarge costs 518.4 USD in 50 hours.
PAPER = InfiniCache(billed_in_ms=100)
REQUEST_USD, GB_S_USD, ELASTICACHE_USD_PER_H = Fraction("2e-7"), Fraction("0.0000166667"), 518.4 / 50


@pytest.mark.parametrize("figure", TABLE_A1)
def test_table_a1_costs_follow_from_its_usage(figure: str) -> None:
    row = TABLE_A1[figure]

    billed = row_bill(row)

    items = {line.text: line.usd for line in billed.lines}
    assert items["cache function, duration"] == pytest.approx(row.lambda_usd, abs=1e-5)  # the table cuts or rounds
    assert items["cache function, invocations"] == pytest.approx(row.invocations_usd, abs=1e-9)
    if row.redis_usd is not None:
        assert items.get("Redis node t2.micro", 0.0) == pytest.approx(row.redis_usd, abs=1.1e-5)
    if row.s3_usd is not None:
        assert items["S3 GET"] == pytest.approx(row.s3_usd, abs=1e-7)
    assert billed.usd == pytest.approx(row.total_usd, abs=1e-4 if row.total_usd >= 0.01 else 1.1e-5)


def test_table_a1_s3_only_costs_its_gets() -> None:
    assert float(S3_ONLY_REQUESTS * PRICES.usd("s3-get")) == pytest.approx(S3_ONLY_USD, abs=1e-7)


@pytest.mark.parametrize("row", TABLE_5_2, ids=lambda row: row.figure)
def test_table_5_2_counts_the_spikes_that_are_cheaper_than_a_node(row: BurstRow) -> None:
    self_hosted, elasticache = table_5_2_row(row, TABLE_A1[row.figure])

    assert (str(self_hosted), str(elasticache)) == (row.self_hosted, row.elasticache)


def test_infinicache_overtakes_elasticache_at_the_rate_of_figure_17() -> None:
    def hour_usd(gets_per_h: int) -> float:
        return float(infinicache_hour(PAPER, Fraction(gets_per_h), request_usd=REQUEST_USD, gb_s_usd=GB_S_USD).usd)

    crossing = next(rate for rate in range(300_000, 330_000, 500) if hour_usd(rate) > ELASTICACHE_USD_PER_H)

    assert crossing == pytest.approx(312_000, rel=0.01)  # "312 K requests per hour (86 requests per second)"


def test_infinicache_costs_what_figure_13_says_for_fifty_hours_of_large_objects() -> None:
    pool = replace(PAPER, serve_ms=200)  # pieces of more than 1 MB

    def fifty_hours_usd(*, has_backup: bool) -> float:
        prices = {"request_usd": REQUEST_USD, "gb_s_usd": GB_S_USD}
        return 50 * float(infinicache_hour(pool, Fraction(750), has_backup=has_backup, **prices).usd)

    assert fifty_hours_usd(has_backup=False) == pytest.approx(5.41, rel=0.05)
    assert fifty_hours_usd(has_backup=True) == pytest.approx(16.51, rel=0.05)
    assert 50 * ELASTICACHE_USD_PER_H / fifty_hours_usd(has_backup=True) == pytest.approx(31, rel=0.05)
    assert 50 * ELASTICACHE_USD_PER_H / fifty_hours_usd(has_backup=False) == pytest.approx(96, rel=0.05)


def test_infinicaches_formulas_give_their_three_terms() -> None:
    hour = infinicache_hour(PAPER, Fraction(100), request_usd=REQUEST_USD, gb_s_usd=GB_S_USD)

    per_100_ms = REQUEST_USD + Fraction(1, 10) * Fraction(3, 2) * GB_S_USD
    assert hour.serving_usd == 100 * 12 * per_100_ms
    assert hour.warm_up_usd == 400 * 60 * per_100_ms
    assert hour.backup_usd == 400 * 12 * (REQUEST_USD + Fraction(19, 10) * Fraction(3, 2) * GB_S_USD)
