"""Published money: the thesis's table A.1 and table 5.2, InfiniCache's cost model."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from burstcache.core.cost import bill
from burstcache.core.prices import price_sheet
from burstcache.sim.breakeven_frequency import HourlyCost, burst_frequency
from burstcache.sim.infinicache import InfiniCache, infinicache_hour
from burstcache.sim.result import RunResult
from burstcache.sim.usage import Setup, thesis_usage

PRICES = price_sheet("thesis-2022")
SETUP = Setup("x86", "t2.micro", cache_memory_mb=1024)
NO_RUN = RunResult(
    n=0, n_s3=0, n_lambda=0, n_redis=0, lambda_ms=0, invocations=0, cold_starts=0, redis_s=0, redis_starts=0,
    s3_requests=0, lambda_us_exact=0, redis_us_exact=0, end_us=0,
)  # fmt: skip

# Lambda [ms], invocations, Redis [s], S3 requests; costs as printed [USD]: Lambda, invocations, Redis, S3, total.
# None: three cells (0.00377, 0.0000000, 0.0000327) do not fit their own 1020 s, 23 and 92 requests; the totals do.
TABLE_A1 = {
    "5.3": (556_170, 36, 1020, 81, 0.00929, 0.0000072, None, 0.0000348, 0.0131),
    "5.4": (393_809, 10, 2040, 31, 0.00657, 0.0000020, 0.00759, 0.0000133, 0.0142),
    "5.5": (161_806, 4, 2701, 13, 0.00270, 0.0000008, 0.01005, 0.0000056, 0.0128),
    "5.7a": (328_207, 27, 0, 69, 0.00548, 0.0000054, 0.0, 0.0000296, 0.00552),
    "5.7b": (499_976, 21, 281, 46, 0.00835, 0.0000042, 0.00105, 0.0000198, 0.00942),
    "5.8a": (381_188, 10, 859, 26, 0.00637, 0.0000020, 0.00320, 0.0000112, 0.00958),
    "5.8b": (506_881, 11, 849, 23, 0.00846, 0.0000022, 0.00316, None, 0.0116),
    "5.9a": (350_962, 31, 300, 92, 0.00586, 0.0000062, 0.00112, None, 0.00702),
    "5.9b": (512_991, 31, 437, 62, 0.00857, 0.0000062, 0.00163, 0.0000267, 0.0102),
    "5.10a": (817_102, 17, 681, 35, 0.01365, 0.0000034, 0.00253, 0.0000151, 0.0162),
    "5.10b": (266_881, 3, 1500, 8, 0.00446, 0.0000006, 0.00558, 0.0000034, 0.0100),
    "5.11": (61_531, 5, 240, 9, 0.00103, 0.0000010, 0.00089, 0.0000039, 0.00193),
    "5.12": (51_477, 3, 421, 12, 0.00086, 0.0000006, 0.00156, 0.0000052, 0.00243),
    "5.13": (76_754, 7, 601, 16, 0.00128, 0.0000014, 0.00224, 0.0000069, 0.00353),
    "5.14": (129_234, 10, 1141, 31, 0.00216, 0.0000020, 0.00425, 0.0000133, 0.00642),
}
# Spike: its length [s]; spikes an hour and share of the hour, against a node always on and against ElastiCache.
TABLE_5_2 = {
    "5.11": (275, "up to 6 (45 %)", "up to 9 (68 %)"),
    "5.12": (609, "up to 5 (84 %)", "up to 7 (> 100 %)"),
    "5.13": (832, "up to 3 (69 %)", "up to 5 (> 100 %)"),
    "5.14": (2126, "up to 2 (> 100 %)", "up to 2 (> 100 %)"),
}
# InfiniCache's own prices: 100 ms, us-east-1; one cache.r5.24xlarge costs 518.4 USD in 50 hours.
PAPER = InfiniCache(billed_in_ms=100)
REQUEST_USD, GB_S_USD, ELASTICACHE_USD_PER_H = Fraction("2e-7"), Fraction("0.0000166667"), 518.4 / 50


def _run(figure: str) -> RunResult:
    lambda_ms, invocations, redis_s, s3_requests, *_ = TABLE_A1[figure]
    counted = {"lambda_ms": lambda_ms, "invocations": invocations, "redis_s": redis_s, "s3_requests": s3_requests}
    return replace(NO_RUN, **counted)  # type: ignore[arg-type]


@pytest.mark.parametrize("figure", TABLE_A1)
def test_table_a1_costs_follow_from_its_usage(figure: str) -> None:
    *_, lambda_usd, invocations_usd, redis_usd, s3_usd, total_usd = TABLE_A1[figure]

    billed = bill(thesis_usage(_run(figure), SETUP), PRICES, only_cache=True)

    items = {line.text: line.usd for line in billed.lines}
    assert items["cache function, duration"] == pytest.approx(lambda_usd, abs=1e-5)  # the table cuts or rounds
    assert items["cache function, invocations"] == pytest.approx(invocations_usd, abs=1e-9)
    if redis_usd is not None:
        assert items.get("Redis node t2.micro", 0.0) == pytest.approx(redis_usd, abs=1.1e-5)
    if s3_usd is not None:
        assert items["S3 GET"] == pytest.approx(s3_usd, abs=1e-7)
    assert billed.usd == pytest.approx(total_usd, abs=1e-4 if total_usd >= 0.01 else 1.1e-5)


def test_table_a1_s3_only_costs_its_175_gets() -> None:
    assert bill(thesis_usage(replace(NO_RUN, s3_requests=175), SETUP), PRICES).usd == pytest.approx(0.0000753, abs=1e-7)


@pytest.mark.parametrize("figure", TABLE_5_2)
def test_table_5_2_counts_the_spikes_that_are_cheaper_than_a_node(figure: str) -> None:
    duration_s, self_hosted, elasticache = TABLE_5_2[figure]
    ours = HourlyCost(Fraction(0), bill(thesis_usage(_run(figure), SETUP), PRICES).usd_exact)

    def against(item: str) -> str:
        always_on = HourlyCost(PRICES.usd(item), Fraction(0))
        return str(burst_frequency(ours, always_on, burst_us=duration_s * 1_000_000))

    assert against("ec2:t2.micro") == self_hosted
    assert against("elasticache-redis:t2.micro") == elasticache


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
