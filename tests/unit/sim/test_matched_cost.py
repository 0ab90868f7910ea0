"""Two policies are compared at the same share of hits, and nothing is extrapolated."""

from __future__ import annotations

from statistics import geometric_mean

import numpy as np
import pytest

from burstcache_sim.choose.matched_cost import (
    KNOBS_USD,
    Point,
    clairvoyant_usd,
    hull_usd,
    matched,
    mean_rate,
    memoryless_usd,
    points,
    traces,
    worth_curve,
)
from burstcache_sim.policies.node_use import Breakeven, Hazard
from burstcache_sim.policies.policy import WorthPolicy
from burstcache_sim.policies.thesis import Thesis
from burstcache_sim.traces.generate import poisson, spike
from burstcache_sim.traces.workloads import THESIS_SIX, SyntheticWorkload
from support.runs import run_fast

SEEDS = range(1, 21)


def test_the_cost_between_two_knobs_is_linear_in_the_share() -> None:
    curve = [Point(0, 0), Point(50, 2), Point(90, 6)]

    match = matched(curve, 60)

    assert match is not None
    assert (match.usd, match.knob_usd) == (pytest.approx(3), KNOBS_USD[1])


@pytest.mark.parametrize("share_pct", [4.9, 90.1])
def test_a_share_that_no_two_knobs_enclose_has_no_cost(share_pct: float) -> None:
    assert matched([Point(5, 1), Point(90, 6)], share_pct) is None


def test_a_curve_that_passes_a_share_twice_is_taken_where_the_knob_is_smaller() -> None:
    match = matched([Point(0, 0), Point(40, 4), Point(20, 1), Point(60, 5)], 30)

    assert match is not None
    assert match.usd == pytest.approx(3)


def test_a_share_is_one_of_all_requests_and_a_cost_the_mean_of_the_traces() -> None:
    candidates = [Thesis.at_rate(9)]
    empty, sparse, dense = (np.arange(n) * 1_000_000 for n in (0, 2, 40))
    alone = [points([t], candidates, None)[0] for t in (sparse, dense)]
    hits = [run_fast(t, candidates[0]).in_memory_pct for t in (sparse, dense)]

    together = points([empty, sparse, dense], candidates, None)[0]

    assert [point.share_pct for point in alone] == pytest.approx(hits)
    assert hits[0] != hits[1]
    assert together.share_pct == pytest.approx((2 * alone[0].share_pct + 40 * alone[1].share_pct) / 42)
    assert together.usd == pytest.approx((alone[0].usd + alone[1].usd) / 3)


def test_the_mean_rate_counts_the_time_that_a_workload_lasts() -> None:
    minute_us = 60_000_000
    t = [np.arange(1, 6) * minute_us]

    assert mean_rate(SyntheticWorkload("", poisson, (1, 600), 600), t) == 0.5
    assert mean_rate(SyntheticWorkload("", spike, (10, 5)), t) == 1


def test_the_clairvoyant_bound_is_close_to_a_plan_that_is_known() -> None:
    one_hit_one_miss_usd = 2e-7 + 1.67e-5 + 4.3e-7  # a second of a cache function, and a GET from S3

    bound_usd = clairvoyant_usd([np.array([0, 10**12])], 50)

    assert one_hit_one_miss_usd / 3 < bound_usd <= one_hit_one_miss_usd


def test_no_policy_costs_less_than_the_bounds_at_its_share() -> None:
    workload = SyntheticWorkload("Poisson 2/min", poisson, (2, 40_000), 40_000)
    t = traces(workload, range(1, 4))
    thesis = points(t, [Thesis.at_rate(mean_rate(workload, t))], None)[0]

    match = matched(worth_curve(Breakeven, t, None), thesis.share_pct)

    assert match is not None
    assert 0 < clairvoyant_usd(t, thesis.share_pct) < memoryless_usd(40_000, thesis.share_pct) < match.usd < thesis.usd


def test_the_hull_mixes_any_two_settings_and_extrapolates_none() -> None:
    curve = [Point(0, 1), Point(50, 9), Point(40, 2), Point(60, 4), Point(60, 3)]

    assert hull_usd(curve, 20) == pytest.approx(1.5)
    assert hull_usd(curve, 50) == pytest.approx(2.5)
    assert hull_usd(curve, 60) == 3
    assert hull_usd(curve, 61) is None
    assert hull_usd(curve[2:], 39) is None


@pytest.mark.slow
@pytest.mark.parametrize(("policy", "most"), [(Breakeven, 0.72), (Hazard, 0.66)])
def test_deployable_policies_cost_less_than_the_thesis_policy_on_its_six_workloads(
    policy: type[WorthPolicy], most: float
) -> None:
    ratios = []
    for workload in THESIS_SIX:
        t = traces(workload, SEEDS)
        thesis = points(t, [Thesis.at_rate(mean_rate(workload, t))], workload.until_us)[0]
        match = matched(worth_curve(policy, t, workload.until_us), thesis.share_pct)
        assert match is not None
        ratios.append(match.usd / thesis.usd)

    assert geometric_mean(ratios) <= most
