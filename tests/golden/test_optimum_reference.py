"""The exact optimum gives the reference's numbers, bit for bit."""

from __future__ import annotations

from typing import Any

from burstcache_sim.optimum.exact import solve
from support.reference import arrivals_us, each_trace


@each_trace
def test_optimum_costs_what_the_reference_says_in_every_variant(trace: dict[str, Any]) -> None:
    result = solve(arrivals_us(trace))

    for name in ("cost_units", "cost_units_dmin_1s", "cost_units_bridged"):
        assert getattr(result, name) == trace["optimum"][name]


@each_trace
def test_optimum_with_a_price_per_miss_is_the_references(trace: dict[str, Any]) -> None:
    for point in trace["optimum"]["pareto"]:
        result = solve(arrivals_us(trace), point["penalty_units"])

        for name in ("objective_units", "fewest_misses", "cost_units_at_fewest_misses"):
            assert getattr(result, name) == point[name]
