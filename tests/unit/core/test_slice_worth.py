"""Slices go to a node only if it sends them sooner than S3, and for less than they save."""

from __future__ import annotations

from fractions import Fraction

import pytest

from burstcache.core.prices import price_sheet
from burstcache.core.slice_worth import BASELINE_MBIT_S, read_ms, slice_pays, slice_pays_above_usd
from burstcache.core.worth import wait_usd_from_text
from support.project import template

_SHEET = price_sheet("today-us-east-1")


def pays(node_type: str, *, is_same_zone: bool = True, hit_value: str = "10") -> bool:
    return slice_pays(node_type, is_same_zone=is_same_zone, wait_usd=wait_usd_from_text(hit_value), sheet=_SHEET)


def test_nodes_that_send_two_readers_a_mib_before_s3_sends_one_hold_slices() -> None:
    assert {each for each in BASELINE_MBIT_S if pays(each)} == {
        "t4g.large",
        *(f"{family}.{size}" for family in ("m7g", "r7g", "r8g") for size in ("medium", "large")),
    }


def test_a_micro_takes_seven_times_as_long_as_s3() -> None:
    assert read_ms("t4g.micro") == pytest.approx(1 + 2 * 131.072)
    assert not pays("t4g.micro", hit_value="1000000")


def test_every_type_of_the_template_has_a_bandwidth() -> None:
    assert set(template()["Parameters"]["RedisInstanceType"]["AllowedValues"]) == BASELINE_MBIT_S.keys()


def test_a_type_without_a_known_bandwidth_holds_no_slices() -> None:
    assert read_ms("x9z.large") is None
    assert not pays("x9z.large")


def test_from_another_zone_a_slice_costs_more_than_it_saves_unless_a_hit_is_worth_much() -> None:
    assert not pays("r7g.large", is_same_zone=False)
    assert pays("r7g.large", is_same_zone=False, hit_value="30")


def test_in_the_same_zone_the_saved_request_alone_pays() -> None:
    assert pays("r7g.large", hit_value="0")


def test_a_slice_that_is_slower_never_pays_whatever_its_request_costs() -> None:
    assert not slice_pays("t4g.medium", is_same_zone=True, wait_usd=Fraction(0), sheet=_SHEET)


def test_values_above_which_slices_pay_are_those_at_which_they_begin_to() -> None:
    elsewhere_usd = slice_pays_above_usd("r7g.large", is_same_zone=False, sheet=_SHEET)
    here_usd = slice_pays_above_usd("r7g.large", is_same_zone=True, sheet=_SHEET)

    assert elsewhere_usd is not None
    assert here_usd is not None
    assert here_usd < 0
    assert float(elsewhere_usd * 1_000_000) == pytest.approx(25.9, abs=0.05)
    assert not slice_pays("r7g.large", is_same_zone=False, wait_usd=elsewhere_usd, sheet=_SHEET)
    assert slice_pays("r7g.large", is_same_zone=False, wait_usd=elsewhere_usd + Fraction(1, 10**9), sheet=_SHEET)
    assert slice_pays_above_usd("t4g.micro", is_same_zone=True, sheet=_SHEET) is None
