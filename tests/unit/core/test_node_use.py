"""The use of a node, against `docs/understand/simulation.md`, "The use of nodes and keys"."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from burstcache.core.breakeven import redis_stop_us
from burstcache.core.node_use import (
    MAX_HITS,
    BreakevenUse,
    HazardUse,
    NodeUse,
    UseRule,
    breakeven_use,
    decode,
    encode,
    hazard_use,
    interrupted,
    learn_hits,
)
from burstcache.core.parameters import US_PER_S
from burstcache.core.prices import price_sheet
from burstcache.core.worth import MICRO, Worth, tier_prices, wait_usd_from_text

S = US_PER_S
EAST = price_sheet("today-us-east-1")


def worth(per_million: str, node_type: str = "t4g.nano") -> Worth:
    return Worth(wait_usd_from_text(per_million), tier_prices(EAST, node_type=node_type, cache_memory_mb=256))


USUAL = worth("10")  # a hit a second pays nine nodes
RULES: dict[str, UseRule] = {"break-even": breakeven_use(USUAL), "hazard": hazard_use(USUAL)}
each_rule = pytest.mark.parametrize("rule", RULES.values(), ids=RULES.keys())
HITS = st.lists(st.tuples(st.integers(0, 3600 * S), st.integers(1, MICRO)), max_size=40)


def steady(rule: UseRule, gap_s: float, *, count: int = 40, use: NodeUse | None = None) -> NodeUse:
    use = use or rule.first()
    for index in range(count):
        use = rule.observe(use, round(index * gap_s * S), MICRO)
    return use


@each_rule
def test_a_load_that_pays_boots_and_one_that_does_not_does_not(rule: UseRule) -> None:
    busy, calm = steady(rule, 1), steady(rule, 3_000)

    assert rule.boots(busy, busy.last_us)
    assert not rule.boots(calm, calm.last_us)


@pytest.mark.parametrize("rule_of", [breakeven_use, hazard_use])
def test_a_load_that_pays_a_task_without_its_public_address_boots_none_with_one(
    rule_of: Callable[[Worth], UseRule],
) -> None:
    plain, public = (rule_of(worth("10", f"fargate-spot:2GB{ending}")) for ending in ("", "+ipv4"))
    busy, calm = steady(plain, 3), steady(public, 3)

    assert plain.boots(busy, busy.last_us)
    assert not public.boots(calm, calm.last_us)


@each_rule
def test_a_load_that_is_over_boots_nothing(rule: UseRule) -> None:
    busy = steady(rule, 1)

    assert not rule.boots(busy, busy.last_us + 24 * 3600 * S)


@each_rule
def test_a_node_without_any_use_stops_after_the_minute_that_is_billed(rule: UseRule) -> None:
    calm = steady(rule, 3_000, count=3)

    assert rule.stop_us(calm, 10_000 * S) == 10_060 * S


@each_rule
def test_a_busy_node_outlives_its_last_hit(rule: UseRule) -> None:
    busy = steady(rule, 2)

    assert rule.stop_us(busy, 0) > busy.last_us + S


@each_rule
def test_two_halves_of_a_hit_are_one_arrival(rule: UseRule) -> None:
    halves = rule.first()
    for at_s in range(10):
        halves = rule.observe(rule.observe(halves, at_s * S, MICRO // 2), at_s * S, MICRO // 2)

    assert halves == steady(rule, 1, count=10)


@each_rule
def test_an_arrival_that_is_reported_late_takes_its_place(rule: UseRule) -> None:
    use = steady(rule, 10)

    later = rule.observe(use, use.last_us - 4 * S, rule.arrival_weight)

    assert later.last_us == use.last_us
    assert later.times_us[-2] == use.last_us - 4 * S


def test_break_even_boots_on_the_same_requests_in_whatever_order_they_are_reported() -> None:
    rule, random = RULES["break-even"], Random(3)
    times_us = sorted(random.randrange(300 * S) for _ in range(60))
    batches = [sorted(random.sample(times_us[at : at + 20], 20)) for at in range(0, 60, 20)]

    def told(order: list[int]) -> NodeUse:
        use = rule.observe(rule.first(), 0, rule.arrival_weight)
        for at_us in order:
            use = rule.observe(use, at_us, rule.arrival_weight)
        return use

    by_turns = [at_us for batch in batches for reader in (batch[::2], batch[1::2]) for at_us in reader]

    assert by_turns != times_us
    assert told(by_turns) == told(times_us)


def test_reports_of_several_readers_look_no_busier_than_one_readers() -> None:
    """Five readers of a load that just does not pay, each with a batch every minute."""
    rule = RULES["hazard"]
    assert isinstance(rule, HazardUse)
    gap_s = 40
    whole = [index * gap_s * S for index in range(60)]
    order = [at_us for at in range(0, 60, 30) for reader in range(5) for at_us in whole[at + reader : at + 30 : 5]]

    def told(times_us: list[int]) -> NodeUse:
        use = rule.first()
        for at_us in times_us:
            use = rule.observe(use, at_us, rule.arrival_weight)
        return use

    one, several = told(whole), told(order)

    assert several.last_us == one.last_us
    assert rule.boots(several, several.last_us) <= rule.boots(one, one.last_us)


@each_rule
def test_a_gap_that_nobody_saw_teaches_nothing(rule: UseRule) -> None:
    use = interrupted(steady(rule, 5))

    later = rule.observe(use, 10**12, MICRO)

    assert later.last_us == 10**12
    assert later.belief == use.belief
    assert later.times_us in ((), (10**12,))


def test_the_dearer_the_node_the_more_hits_are_an_arrival() -> None:
    small, large = (hazard_use(worth("1", type_)).arrival_weight for type_ in ("t4g.nano", "r7g.large"))

    assert (small // MICRO, large // MICRO) == (4, 88)


@pytest.mark.parametrize("per_million", ["0", "1", "10", "100"])
@pytest.mark.parametrize("node_type", ["t4g.nano", "t4g.micro", "r7g.large"])
def test_boots_follow_the_rate_at_which_hits_pay_for_the_node(per_million: str, node_type: str) -> None:
    valued, random = worth(per_million, node_type), Random(7)
    rule = hazard_use(valued)
    pays_per_s = float(valued.prices.redis_usd_per_s / valued.hit_usd)

    def boots_at(rate_per_s: float) -> bool:
        use, at_s = rule.first(), 0.0
        for _ in range(60 * rule.arrival_weight // MICRO):
            at_s += random.expovariate(rate_per_s)
            use = rule.observe(use, round(at_s * S), MICRO)
        return rule.boots(use, round(at_s * S))

    assert boots_at(3 * pays_per_s)
    assert not boots_at(pays_per_s / 4)


@each_rule
@given(HITS)
def test_a_use_survives_its_binary_form_bit_for_bit(rule: UseRule, hits: list[tuple[int, int]]) -> None:
    use = learn_hits(rule, rule.first(), sorted(hits))

    assert decode(encode(use)) == use
    assert len(encode(use)) < 1_000


@each_rule
def test_hits_of_a_look_are_learned_like_told_ones(rule: UseRule) -> None:
    hits = [(index * 5 * S, MICRO) for index in range(40)]

    assert learn_hits(rule, rule.first(), hits) == steady(rule, 5)


@each_rule
def test_a_full_list_of_hits_says_nothing_of_the_time_before_it(rule: UseRule) -> None:
    long_ago = steady(rule, 5)
    hits = [(10**12 + index * S, MICRO) for index in range(MAX_HITS)]

    use = learn_hits(rule, long_ago, hits)

    assert rule.boots(use, use.last_us)
    assert use == learn_hits(rule, interrupted(long_ago), hits)


def test_a_full_list_of_light_hits_stands_for_its_rate() -> None:
    rule = hazard_use(worth("0", "r7g.large"))
    hits = [(index * S // 1_000, MICRO // 10) for index in range(MAX_HITS)]  # 1,000 a second: 100 whole ones

    use, fewer = learn_hits(rule, rule.first(), hits), learn_hits(rule, rule.first(), hits[:-1])

    assert use.last_us == hits[-1][0]
    assert rule.stop_us(use, -60 * S) > rule.stop_us(fewer, -60 * S) + S
    assert use.belief is not None
    assert use.belief.gaps == 3


@pytest.mark.slow
@each_rule
def test_looks_grow_apart_while_a_node_runs_and_never_miss_the_first_stop(rule: UseRule) -> None:
    def next_after(age_s: int) -> int:
        use = steady(rule, 2, count=age_s // 2)
        at_us = rule.next_check_us(use, since_us=0, at_us=age_s * S)
        assert at_us is not None
        assert at_us >= rule.stop_us(use, 0)
        return at_us - age_s * S

    assert next_after(60) < next_after(3_600) < next_after(36_000) < 3_600 * S


@each_rule
def test_a_look_after_the_last_useful_hit_stops_the_node(rule: UseRule) -> None:
    use = steady(rule, 2)

    assert rule.next_check_us(use, since_us=0, at_us=rule.stop_us(use, 0)) is None


@pytest.mark.parametrize("make", [breakeven_use, hazard_use])
def test_a_use_that_was_learned_at_spots_price_is_weighed_at_the_price_on_demand(make: Any) -> None:
    spot = make(worth("10", "fargate-spot:2GB"))
    on_demand = make(worth("10", "fargate-spot:2GB"), task_kind="fargate")
    use = steady(spot, 2)

    assert on_demand.arrival_weight == spot.arrival_weight
    assert use.last_us < on_demand.stop_us(use, 0) < spot.stop_us(use, 0)


@pytest.mark.parametrize("make", [breakeven_use, hazard_use])
@pytest.mark.parametrize("node_type", ["fargate:2GB", "t4g.micro"])
def test_a_stack_that_asks_for_no_spot_has_one_price(make: Any, node_type: str) -> None:
    assert make(worth("10", node_type), task_kind="fargate") == make(worth("10", node_type))


def test_control_makes_a_break_even_node_stay_longer() -> None:
    rule = breakeven_use(USUAL)
    free = breakeven_use(replace(USUAL, prices=replace(USUAL.prices, run_usd=Fraction(0))))

    assert isinstance(rule, BreakevenUse)
    assert isinstance(free, BreakevenUse)
    assert rule.stop_us(rule.observe(rule.first(), 0, MICRO), -(10**9)) == redis_stop_us(
        since_us=-(10**9), last_us=0, parameters=rule.parameters
    )
    assert rule.parameters.redis_idle_us > free.parameters.redis_idle_us


def test_a_hit_worth_only_its_get_is_judged_too() -> None:
    rule = hazard_use(worth("0"))

    assert isinstance(rule, HazardUse)
    assert rule.boots(steady(rule, 0.1, count=2_000), 200 * S)
