"""The thesis policy and the offline algorithm give what another implementation of the same rules gives, bit for bit."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import pytest

from burstcache.core.breakeven import breakeven
from burstcache.core.parameters import configure
from burstcache.core.prices import price_sheet
from burstcache_sim.bill.spending import offline_usd, run_usd
from burstcache_sim.policies.offline import offline
from burstcache_sim.policies.policy import Policy
from burstcache_sim.policies.thesis import Thesis
from burstcache_sim.units import run_cost_units
from burstcache_sim.world.result import RunResult
from burstcache_sim.world.timings import THESIS_TIMINGS
from support.reference import REFERENCE, arrivals_us, each_trace, trace_path
from support.runs import run

PRICES = price_sheet("thesis-2022")


def fields_of(result: RunResult) -> dict[str, Any]:
    names = [name for name in RunResult.__dataclass_fields__ if name != "log"]
    return {
        **{name: getattr(result, name) for name in (*names, "in_memory_pct", "tiers_rle")},
        "cost_units": run_cost_units(result),
        "cost_usd": run_usd(result, PRICES),
        "log": [list(row) for row in result.log],
    }


def expected_runs(trace: dict[str, Any]) -> Iterator[tuple[Policy, int | None, dict[str, Any]]]:
    """Yield policy, horizon [us] and fields of every run that the reference has for a trace."""
    for results in trace["thesis"]:
        policy = Thesis.configured(str(results["rate"]), str(results["sensitivity"]))
        yield policy, None, results["natural"]
        if "horizon" in results:
            yield policy, trace["duration_s"] * 1_000_000, results["horizon"]


@each_trace
def test_a_run_equals_the_reference_in_every_field(trace: dict[str, Any]) -> None:
    requests_us = arrivals_us(trace)

    for policy, until_us, expected in expected_runs(trace):
        found = fields_of(run(requests_us, policy, until_us=until_us))

        assert {name: found[name] for name in expected} == expected


@each_trace
def test_the_offline_algorithm_equals_the_reference_in_every_field(trace: dict[str, Any]) -> None:
    result = offline(arrivals_us(trace))

    assert trace["offline"] == {
        "lambda_us": result.lambda_us,
        "lambda_runs": len(result.lambda_runs_us),
        "redis_us": result.redis_us,
        "redis_runs": len(result.redis_runs_us),
        "cost_units": result.cost_units,
        "cost_units_with_requests": result.cost_units_with_requests,
        "cost_usd": offline_usd(result, PRICES),
        "lam": [list(span_us) for span_us in result.lambda_runs_us],
        "red": [list(span_us) for span_us in result.redis_runs_us],
    }


@each_trace
def test_the_traces_are_those_that_the_reference_was_made_with(trace: dict[str, Any]) -> None:
    assert hashlib.sha256(trace_path(trace).read_bytes()).hexdigest() == trace["sha256"]


@pytest.mark.parametrize("row", REFERENCE["configurator"], ids=lambda row: f"{row['rate']}/{row['sensitivity']}")
def test_the_configurator_equals_the_reference(row: dict[str, int]) -> None:
    parameters = configure(Fraction(row["rate"]), Fraction(row["sensitivity"]))

    times = ("tick_us", "lambda_threshold_us", "redis_utilization_us")
    assert {name: getattr(parameters, name) for name in times} == {name: row[name] for name in times}


@pytest.mark.parametrize("hit_value_usd", REFERENCE["be_params"])
def test_the_break_even_policys_parameters_equal_the_reference(hit_value_usd: str) -> None:
    parameters = breakeven(Fraction(hit_value_usd))

    found = {
        "w2": parameters.boot_requests,
        "t2": parameters.boot_within_us,
        "tau_r": parameters.redis_idle_us,
        "warm": THESIS_TIMINGS.warm_start_us,
        "cold": THESIS_TIMINGS.cold_start_us,
        "warm_keep": THESIS_TIMINGS.stays_warm_us,
        "boot": THESIS_TIMINGS.redis_boot_us,
        "stop": THESIS_TIMINGS.redis_stop_us,
        "min_bill": THESIS_TIMINGS.redis_least_bill_us,
    }

    expected = REFERENCE["be_params"][hit_value_usd]  # those of cache functions are in `tests/unit/research`
    assert found == {name: expected[name] for name in found}
