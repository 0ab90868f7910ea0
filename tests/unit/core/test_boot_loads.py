"""Loads that boot a node, against `docs/understand/simulation.md`, "The use of nodes and keys"."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from burstcache.core.boot_loads import LoadRule, load_rule
from burstcache.core.parameters import US_PER_S
from burstcache.core.prices import price_sheet
from burstcache.core.recency import SEEN_WITHIN_US
from burstcache.core.worth import MICRO, Worth, tier_prices, wait_usd_from_text

S = US_PER_S
H = 3600 * S
EAST = price_sheet("today-us-east-1")


def rule(per_million: str) -> LoadRule:
    return load_rule(worth(per_million))


def worth(per_million: str) -> Worth:
    prices = tier_prices(EAST, node_type="t4g.nano", cache_memory_mb=256, has_express=True)
    return Worth(wait_usd_from_text(per_million), prices)


def loads(rule: LoadRule, age_us: int, run_us: int = 60 * S, weight: int = MICRO) -> bool:
    return rule.loads(age_us=age_us, run_us=run_us, weight=weight)


def test_a_key_of_a_minute_ago_is_loaded_and_one_of_hours_ago_is_not() -> None:
    assert loads(rule("100"), 60 * S)
    assert not loads(rule("100"), 5 * H)


def test_the_longer_the_node_runs_the_older_a_key_may_be() -> None:
    assert not loads(rule("100"), 2 * H)
    assert loads(rule("100"), 2 * H, run_us=600 * S)


def test_what_a_hit_hardly_saves_is_not_loaded() -> None:
    assert not loads(rule("0"), 0)
    assert not loads(rule("100"), 60 * S, weight=MICRO // 50)


def test_where_copies_in_express_serve_a_load_has_less_to_save() -> None:
    dear = worth("20")
    above_express = dear.weight_of(4_096)

    assert loads(load_rule(dear), 120 * S)
    assert not loads(load_rule(dear), 120 * S, weight=above_express)


@pytest.mark.parametrize(("early_s", "is_loaded"), [(60, True), (600, False)])
def test_what_was_asked_for_just_a_day_ago_is_loaded_again(early_s: int, is_loaded: bool) -> None:
    assert loads(rule("100"), SEEN_WITHIN_US - early_s * S) == is_loaded
    assert not loads(rule("1"), SEEN_WITHIN_US - early_s * S)


def test_what_costs_nothing_is_loaded() -> None:
    free = worth("1")

    assert loads(load_rule(replace(free, prices=replace(free.prices, s3_get_usd=Fraction(0)))), 20 * H)


@given(
    st.sampled_from(["0", "1", "10", "1000000", "1000000000"]),
    st.integers(0, SEEN_WITHIN_US - 1),
    st.integers(1, 10**17),
    st.integers(0, MICRO),
)
def test_limits_fit_the_integers_of_the_compiled_simulator(value: str, age_us: int, run_us: int, weight: int) -> None:
    found = rule(value)

    assert min(run_us, SEEN_WITHIN_US) * found.ratio < 2**63
    assert loads(found, age_us, run_us, weight) <= loads(found, age_us, run_us, MICRO)
    assert (age_us <= found.oldest_us(run_us=run_us, weight=weight)) <= loads(found, age_us, run_us, weight)
