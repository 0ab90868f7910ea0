"""Admission of slices to the pool."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from burstcache.core.errors import InvalidSettingError
from burstcache.core.pool.admission import SliceAdmission, pays_within_s
from burstcache.core.pool.costs import member_price
from burstcache.core.pool.slices import Redundancy
from burstcache.core.worth import sheet_of_region


def test_a_slice_enters_when_it_is_asked_for_again() -> None:
    heat = SliceAdmission(pays_within_s=math.inf)

    assert [heat.admit(name, at_s=0) for name in (b"a", b"b", b"a", b"a")] == [False, False, True, True]


def test_a_slice_that_is_asked_for_too_seldom_stays_outside() -> None:
    heat = SliceAdmission(pays_within_s=10)

    assert [heat.admit(b"a", at_s=at_s) for at_s in (0, 10, 19.9, 30)] == [False, False, True, False]


def test_where_the_pool_never_pays_nothing_enters() -> None:
    heat = SliceAdmission(pays_within_s=0)

    assert [heat.admit(b"a", at_s=at_s) for at_s in (0, 0, 1)] == [False, False, False]


def test_what_was_not_asked_for_longest_is_forgotten_first() -> None:
    heat = SliceAdmission(pays_within_s=math.inf, max_slices=2)

    asked = [heat.admit(name, at_s=0) for name in (b"a", b"b", b"a", b"c", b"a", b"b")]

    assert asked == [False, False, True, False, True, False]


@pytest.mark.parametrize("pays_within_s", [-1.0, math.nan])
def test_a_time_below_zero_is_refused(pays_within_s: float) -> None:
    with pytest.raises(InvalidSettingError, match="accepted: 0 or more"):
        SliceAdmission(pays_within_s=pays_within_s)


@pytest.mark.parametrize(("value_usd_per_million", "pays"), [(0, 0.0), (6, 0.0), (10, math.inf)])
def test_the_pool_pays_if_the_saved_wait_is_worth_its_invocations(value_usd_per_million: int, pays: float) -> None:
    sheet = sheet_of_region("us-east-1")

    within_s = pays_within_s(
        member_price(sheet, 1_769),
        Redundancy(10, 2),
        s3_get_usd=sheet.usd("s3-get"),
        hit_value_usd=Fraction(value_usd_per_million, 1_000_000),
    )

    assert within_s == pays
