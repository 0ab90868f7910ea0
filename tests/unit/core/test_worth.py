"""The worth of hits, against `docs/use/policies.md`."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from burstcache.core.errors import InvalidSettingError, PriceMissingError
from burstcache.core.prices import price_sheet
from burstcache.core.worth import MICRO, TierPrices, Worth, sheet_of_region, tier_prices, wait_usd_from_text

GB = 1024**3
EAST = price_sheet("today-us-east-1")
NANO = tier_prices(EAST, node_type="t4g.nano", cache_memory_mb=256)
LADDER = tier_prices(EAST, node_type="t4g.nano", cache_memory_mb=256, has_express=True)


def worth(per_million: str, prices: TierPrices = LADDER) -> Worth:
    return Worth(wait_usd_from_text(per_million), prices)


def test_a_hit_in_redis_saves_nearly_the_whole_wait_and_a_get() -> None:
    assert worth("10").hit_usd == Fraction("0.96") * Fraction("1e-5") + Fraction("4e-7")


def test_express_saves_four_fifths_of_the_wait_and_costs_its_own_read() -> None:
    saved_usd = worth("10").saved_usd("express", size_bytes=100_000)

    assert saved_usd == Fraction("0.8e-5") + Fraction("0.37e-6") - Fraction("0.0006") * 100_000 / GB


def test_redis_saves_little_above_a_copy_in_express() -> None:
    saved_usd = worth("10").saved_usd("redis", "express", 4_096)

    assert saved_usd == Fraction("0.16e-5") + Fraction("0.03e-6") + Fraction("0.0006") * 4_096 / GB


@pytest.mark.parametrize(("per_million", "hits_per_s"), [("0", 36), ("1", 6.07), ("10", 0.715), ("100", 0.0728)])
def test_the_smallest_node_pays_above_express_from_as_many_hits(per_million: str, hits_per_s: float) -> None:
    found = NANO.redis_usd_per_s / worth(per_million).saved_usd("redis", "express", 4_096)

    assert float(found) == pytest.approx(hits_per_s, rel=0.03)


def test_policies_count_half_of_what_redis_saves_above_a_copy_in_express() -> None:
    saved_usd = Fraction("0.16e-5") + Fraction("0.03e-6") + Fraction("0.0006") * 4_096 / GB

    assert worth("10").weight_of(4_096) == int(MICRO * saved_usd / 2 / Fraction("1e-5")) == 81_614


@given(st.integers(0, 50_000_000), st.sampled_from(["0", "1", "10", "100"]))
def test_no_read_weighs_more_than_one_that_goes_to_s3(size_bytes: int, per_million: str) -> None:
    valued = worth(per_million)

    assert 0 < valued.weight(valued.below(size_bytes), size_bytes) <= MICRO


def test_an_object_that_express_cannot_serve_cheaper_stays_with_s3() -> None:
    assert worth("0").below(662_000) == "express"
    assert worth("0").below(663_000) == "s3"
    assert worth("0", NANO).below(4_096) == "s3"


@pytest.mark.parametrize("text", ["", "-1", "1/2", "much", "nan", "inf"])
def test_a_hit_value_that_is_no_amount_is_refused_with_its_text(text: str) -> None:
    with pytest.raises(InvalidSettingError, match=f"hit value '{text}': expected USD per million hits"):
        wait_usd_from_text(text)


def test_a_region_has_its_own_prices_and_any_other_northern_virginias() -> None:
    assert sheet_of_region("eu-central-1").name == "today-eu-central-1"
    assert sheet_of_region("ap-south-1") is EAST


def test_what_a_regions_sheet_leaves_out_is_taken_from_northern_virginia() -> None:
    frankfurt = sheet_of_region("eu-central-1")
    without = replace(frankfurt, rows=tuple(row for row in frankfurt.rows if row.item != "ec2:r7g.medium"))

    prices = tier_prices(without, node_type="r7g.medium", cache_memory_mb=256)

    assert prices.redis_usd_per_s == EAST.usd("ec2:r7g.medium") / 3600
    assert prices.s3_get_usd == Fraction("0.00000043")


def test_a_node_type_without_a_price_is_an_error_that_names_it() -> None:
    with pytest.raises(PriceMissingError, match="ec2:c9g.huge"):
        tier_prices(EAST, node_type="c9g.huge", cache_memory_mb=256)


def test_a_node_that_spot_refused_costs_the_price_on_demand() -> None:
    prices = tier_prices(EAST, node_type="fargate-spot:2GB", cache_memory_mb=256)
    on_demand = tier_prices(EAST, node_type="fargate:2GB", cache_memory_mb=256)

    assert prices.node_usd_per_s("fargate-spot") == prices.node_usd_per_s() == prices.redis_usd_per_s
    assert prices.node_usd_per_s("fargate") == on_demand.redis_usd_per_s > prices.redis_usd_per_s
    assert prices.node_usd(1_000_000, "fargate") == prices.run_usd + on_demand.redis_usd_per_s
    assert on_demand.node_usd_per_s("fargate") == on_demand.redis_usd_per_s
    assert NANO.node_usd_per_s("") == NANO.redis_usd_per_s
