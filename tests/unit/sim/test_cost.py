"""Usage × prices: every item is billed once, nothing is left out, nothing is rounded."""

from __future__ import annotations

import random
from dataclasses import fields, replace
from fractions import Fraction
from typing import Any

import pytest

from burstcache.core.errors import InvalidSettingError, PriceMissingError
from burstcache.core.prices import price_sheet
from burstcache_sim.bill.config_items import with_config_items
from burstcache_sim.bill.cost import BILLED, Usage, add, bill, cost_units
from burstcache_sim.bill.setup import Setup
from burstcache_sim.bill.usage import thesis_usage
from burstcache_sim.units import run_cost_units
from burstcache_sim.world.result import RunResult
from support.searches import seeds

AMOUNTS = [field.name for field in fields(Usage) if field.name not in ("architecture", "node_name")]
ONE_EACH: dict[str, Any] = dict.fromkeys(AMOUNTS, 1)
ALL_USED = replace(Usage(), **ONE_EACH)
TODAY = with_config_items(price_sheet("today-us-east-1"), Fraction("0.003"))
THESIS = price_sheet("thesis-2022")


def random_run(seed: int) -> RunResult:
    draw = random.Random(seed).randrange
    return RunResult(
        n=draw(1000), n_s3=draw(300), n_lambda=draw(300), n_redis=draw(300), lambda_ms=draw(10**7),
        invocations=draw(100), cold_starts=draw(10), redis_s=draw(10**4), redis_starts=draw(10), s3_requests=draw(500),
        lambda_us_exact=0, redis_us_exact=0, end_us=draw(10**10),
    )  # fmt: skip


def test_every_amount_is_billed_exactly_once() -> None:
    assert list(BILLED) == AMOUNTS


def test_a_bill_has_an_item_for_everything_that_was_used_and_its_sum_is_theirs() -> None:
    billed = bill(ALL_USED, TODAY)

    assert len(billed.lines) == len(AMOUNTS)
    assert billed.usd_exact == sum(line.usd_exact for line in billed.lines)
    assert billed.usd_exact == billed.fixed_usd_exact + billed.variable_usd_exact


def test_an_item_is_quantity_times_price() -> None:
    (line,) = bill(Usage(transitions=1_000), TODAY).lines

    assert (line.text, line.quantity, line.unit, line.usd) == ("Step Functions", 1000, "transition", 0.025)
    assert "infracost" in line.source


def test_what_was_not_used_needs_no_price() -> None:
    assert bill(Usage(s3_gets=10), THESIS).usd == pytest.approx(4.3e-6)


def test_what_was_used_without_a_price_is_an_error_and_not_nothing() -> None:
    with pytest.raises(PriceMissingError, match="transition"):
        bill(Usage(transitions=1), THESIS)


def test_only_the_cache_is_what_the_thesis_bills() -> None:
    texts = [line.text for line in bill(ALL_USED, TODAY, only_cache=True).lines]

    assert texts == ["cache function, duration", "cache function, invocations", "Redis node t4g.micro", "S3 GET"]


def test_arm_costs_a_fifth_less_than_x86() -> None:
    arm, x86 = (bill(Usage(architecture=name, proxy_gb_s=1), TODAY).usd for name in ("arm", "x86"))

    assert arm == pytest.approx(0.8 * x86, rel=1e-5)


@pytest.mark.parametrize("seed", seeds(20))
def test_cost_units_are_the_simulators_to_the_last_one(seed: int) -> None:
    result = random_run(seed)

    billed = bill(thesis_usage(result, Setup("x86", "t2.micro", 1024)), THESIS, only_cache=True)

    assert cost_units([billed]) == run_cost_units(result)


def test_cost_units_of_prices_that_are_no_whole_units_are_refused() -> None:
    with pytest.raises(InvalidSettingError, match="thesis-2022"):
        cost_units([bill(Usage(proxy_gb_s=Fraction(1, 7)), TODAY)])


def test_a_month_has_the_hours_of_its_periods_and_the_load_of_its_repetitions() -> None:
    billed = bill(ALL_USED, TODAY)

    month = billed.month(periods=Fraction(3, 2), repeats=Fraction(7))

    assert month.fixed_usd_exact == billed.fixed_usd_exact * Fraction(3, 2)
    assert month.variable_usd_exact == billed.variable_usd_exact * 7


def test_two_usages_together_cost_what_they_cost_apart() -> None:
    together = add([ALL_USED, replace(ALL_USED, events_64kb=5)])

    assert bill(together, TODAY).usd_exact == bill(ALL_USED, TODAY).usd_exact * 2 + 4 * TODAY.usd("event")
