"""Key use that starts a cache function, against `docs/understand/simulation.md`, "The use of nodes and keys"."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import pytest

from burstcache.core.key_use import KeyRule, KeyUse, breakeven_key, hazard_key, stored_key_use
from burstcache.core.node_use import encode, interrupted
from burstcache.core.parameters import US_PER_S
from burstcache.core.prices import price_sheet
from burstcache.core.worth import MICRO, Worth, tier_prices, wait_usd_from_text

S = US_PER_S
EAST = price_sheet("today-us-east-1")


def worth(per_million: str) -> Worth:
    return Worth(wait_usd_from_text(per_million), tier_prices(EAST, node_type="t4g.micro", cache_memory_mb=256))


USUAL = worth("100")
each_rule = pytest.mark.parametrize("rule", [breakeven_key(USUAL), hazard_key(USUAL)], ids=["break-even", "hazard"])


def steady(rule: KeyRule, gap_s: float, count: int = 30) -> KeyUse:
    use = rule.first()
    for index in range(count):
        use = rule.observe(use, round(index * gap_s * S))
    return use


@each_rule
def test_a_busy_key_starts_a_cache_function_and_a_rare_one_does_not(rule: KeyRule) -> None:
    assert rule.starts(steady(rule, 1), is_booting=False)
    assert not rule.starts(steady(rule, 3_000), is_booting=False)


@each_rule
def test_a_cache_function_outlives_a_busy_keys_last_request_and_not_a_rare_ones(rule: KeyRule) -> None:
    busy, rare = steady(rule, 1), steady(rule, 3_000)

    assert rule.lives_until_us(busy, is_booting=False) > busy.last_us + S
    assert rule.lives_until_us(rare, is_booting=False) < rare.last_us + 60 * S


@pytest.mark.parametrize("make", [breakeven_key, hazard_key])
def test_two_requests_a_second_pay_for_a_cache_function_by_default_and_one_in_two_seconds_does_not(
    make: Callable[[Worth], KeyRule],
) -> None:
    rule = make(worth("10"))  # as template.yaml has it, sizes included

    assert rule.starts(steady(rule, 0.5), is_booting=False)
    assert not rule.starts(steady(rule, 3), is_booting=False)


def test_break_even_waits_for_more_requests_where_a_start_is_dear() -> None:
    free, dear = (
        breakeven_key(Worth(wait_usd_from_text("100"), replace(USUAL.prices, life_usd=Fraction(usd, 1_000_000))))
        for usd in (0, 2_000)
    )

    assert free.starts(steady(free, 1, count=2), is_booting=False)
    assert not dear.starts(steady(dear, 1, count=2), is_booting=False)
    assert dear.starts(steady(dear, 1), is_booting=False)
    assert dear.lives_until_us(steady(dear, 1), is_booting=False) > free.lives_until_us(
        steady(free, 1), is_booting=False
    )


def test_bridging_pays_from_a_lower_rate() -> None:
    rule = hazard_key(USUAL)
    lukewarm = steady(rule, 21)

    assert rule.starts(lukewarm, is_booting=True)
    assert not rule.starts(lukewarm, is_booting=False)


@pytest.mark.parametrize("make", [breakeven_key, hazard_key])
def test_a_first_request_starts_nothing_whatever_a_hit_is_worth(make: Callable[[Worth], KeyRule]) -> None:
    rule = make(worth("10000"))
    first = rule.observe(rule.first(), 0)

    assert not rule.starts(first, is_booting=False)
    assert rule.starts(rule.observe(first, S), is_booting=False)


@each_rule
def test_a_gap_in_which_the_node_ran_teaches_nothing(rule: KeyRule) -> None:
    use = interrupted(steady(rule, 1))

    later = rule.observe(use, 10**12)

    assert later.belief == use.belief
    assert later.times_us in ((), (10**12,))


@pytest.mark.parametrize("make", [breakeven_key, hazard_key])
def test_no_use_of_keys_is_kept_where_no_load_pays_for_a_cache_function(make: Callable[[Worth], KeyRule]) -> None:
    assert make(USUAL).ever_starts
    assert not make(worth("0")).ever_starts


@each_rule
def test_requests_that_a_copy_in_express_would_have_served_start_a_cache_function_later(rule: KeyRule) -> None:
    light, whole = rule.first(), rule.first()
    for at_s in range(4):
        light, whole = rule.observe(light, at_s * S, MICRO // 10), rule.observe(whole, at_s * S)

    assert rule.starts(whole, is_booting=False)
    assert not rule.starts(light, is_booting=False)


@each_rule
def test_light_requests_after_a_run_of_the_node_come_together_again(rule: KeyRule) -> None:
    data = encode(steady(rule, 1))

    for at_s in range(200, 230):
        use = rule.observe(stored_key_use(rule, data, node_ready_us=100 * S), at_s * S, MICRO // 10)
        data = encode(use)

    assert use.last_us == 229 * S
