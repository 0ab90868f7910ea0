"""The way to keep data follows what members are lost, what is read and what it costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction

import pytest

from burstcache.core.errors import InvalidSettingError
from burstcache.core.pool.costs import MemberPrice, member_price
from burstcache.core.pool.redundancy import Load, UpkeepChoice, choose, expected
from burstcache.core.pool.slices import Redundancy
from burstcache.core.prices import price_sheet

PRICE = member_price(price_sheet("today-us-east-1"), 1_769)
LOAD = Load(reads_per_h=Fraction(600), writes_per_h=Fraction(100), stored_slices=400)
CALM = {60: {0: 10_000, 1: 30}}
ROUGH = {60: {0: 6_000, 1: 3_000, 2: 1_000}}


def _choose(reclaims: Mapping[int, Mapping[int, int]], *, target: float = 0.99, load: Load = LOAD) -> UpkeepChoice:
    return choose(16, load, PRICE, reclaims, target=target)


def test_what_is_wished_is_reached_where_it_can_be() -> None:
    for target in (0.9, 0.99, 0.999):
        choice = _choose(CALM, target=target)

        assert choice.is_enough
        assert target <= choice.availability < 1


def test_nothing_that_is_enough_costs_less() -> None:
    best = _choose(ROUGH, target=0.8, load=replace(LOAD, reads_per_h=Fraction(2_400)))

    assert best.is_enough
    assert best.availability < 0.96  # more than was wished is not paid for


def test_more_availability_costs_more() -> None:
    costs = [_choose(CALM, target=target).hour.usd for target in (0.5, 0.99, 0.9999)]

    assert costs == sorted(costs)
    assert costs[0] < costs[-1]


def test_members_that_are_reclaimed_often_are_backed_up_more_often() -> None:
    calm, rough = _choose(CALM).plan, _choose(ROUGH).plan

    assert 0 < rough.backup_s < (calm.backup_s or 3_601)


def test_members_that_are_left_alone_for_longer_are_not_reclaimed_less() -> None:
    minute, nine = (expected(16, warm_s, ROUGH) for warm_s in (60, 540))

    assert nine.mean > 9 * minute.mean


def test_slices_that_are_read_all_the_time_need_no_backup() -> None:
    hot = Load(reads_per_h=Fraction(100_000), writes_per_h=Fraction(10), stored_slices=100)

    assert _choose(CALM, load=hot).plan.backup_s == 0


def test_an_impossible_wish_gets_what_can_be_had_and_says_so() -> None:
    choice = _choose({60: {0: 100, 16: 100}})

    assert not choice.is_enough
    assert any("no plan reaches" in reason for reason in choice.reasons)


def test_members_that_nobody_measured_are_expected_to_be_reclaimed_as_the_papers_were() -> None:
    unmeasured, calm = _choose({}), _choose(CALM)

    assert unmeasured.hour.upkeep_usd > calm.hour.upkeep_usd
    assert unmeasured.reasons[0].startswith("0 intervals of 60 s measured")


def test_a_chunk_takes_no_longer_than_the_first_byte_of_s3_where_members_are_enough() -> None:
    wide, narrow = (choose(members, LOAD, PRICE, CALM).plan.redundancy for members in (16, 4))

    assert wide.data >= 10
    assert narrow.chunks <= 4


def test_the_code_of_what_is_stored_is_kept_for_a_small_saving() -> None:
    best = _choose(CALM).plan.redundancy
    near, far = Redundancy(best.data, best.parity + 1), Redundancy(best.data, 16 - best.data)

    kept = choose(16, LOAD, PRICE, CALM, present=near)
    changed = choose(16, LOAD, PRICE, CALM, present=far)

    assert kept.plan.redundancy == near
    assert changed.plan.redundancy.parity < far.parity
    assert changed.availability > 0.9975  # the new one is to last


def test_a_code_that_is_no_longer_enough_is_given_up() -> None:
    choice = choose(16, LOAD, PRICE, ROUGH, present=Redundancy(10, 1))

    assert choice.is_enough
    assert choice.plan.redundancy.parity > 1


def test_the_bill_is_the_sum_of_the_formulas() -> None:
    price = MemberPrice(Fraction(3, 2), Fraction(2, 10**7), Fraction(167, 10**7), billed_in_ms=100)

    warm_up_usd = price.invocations_usd(400 * 60, 5)

    assert float(warm_up_usd) == pytest.approx(0.0648, rel=0.01)  # C_w of 400 functions an hour


@pytest.mark.parametrize(("members", "target"), [(1, 0.9), (16, 1.0), (16, 0.0)])
def test_what_makes_no_sense_is_refused(members: int, target: float) -> None:
    with pytest.raises(InvalidSettingError, match="expected at least 2|availability"):
        choose(members, LOAD, PRICE, target=target)
