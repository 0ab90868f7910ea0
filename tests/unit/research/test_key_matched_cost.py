"""The policies per key cost less than the thesis policy at its own in-memory share."""

from __future__ import annotations

from statistics import geometric_mean

import pytest

from burstcache_sim.choose.matched_cost import hull_usd, matched, mean_rate, points, traces, worth_curve
from burstcache_sim.policies.thesis import Thesis
from burstcache_sim.traces.workloads import THESIS_SIX
from research.policies.key_breakeven import KeyBreakeven
from research.policies.key_hazard import KeyHazard

SEEDS = range(1, 21)


@pytest.mark.slow
def test_hazard_costs_at_most_0_66_of_the_thesis_policy_on_its_six_workloads() -> None:
    ratios, hull_ratios = [], []
    for workload in THESIS_SIX:
        t = traces(workload, SEEDS)
        thesis = points(t, [Thesis.at_rate(mean_rate(workload, t))], workload.until_us)[0]
        curve = worth_curve(KeyHazard, t, workload.until_us)
        match, hull = matched(curve, thesis.share_pct), hull_usd(curve, thesis.share_pct)
        assert match is not None
        assert hull is not None
        ratios.append(match.usd / thesis.usd)
        hull_ratios.append(hull / thesis.usd)

    assert geometric_mean(hull_ratios) <= geometric_mean(ratios) <= 0.66


@pytest.mark.slow
def test_breakeven_costs_at_most_0_72_of_the_thesis_policy_on_its_six_workloads() -> None:
    ratios = []
    for workload in THESIS_SIX:
        t = traces(workload, SEEDS)
        thesis = points(t, [Thesis.at_rate(mean_rate(workload, t))], workload.until_us)[0]
        match = matched(worth_curve(KeyBreakeven, t, workload.until_us), thesis.share_pct)
        assert match is not None
        ratios.append(match.usd / thesis.usd)

    assert geometric_mean(ratios) <= 0.72
