"""The workloads that policies are compared on are those that the documents describe."""

from __future__ import annotations

import pytest

from burstcache.core.parameters import US_PER_S
from burstcache_sim.policies.thesis import Thesis
from burstcache_sim.traces.workloads import DAY_S, HALF_HOUR_S, THESIS_SIX, SyntheticWorkload, family
from support.project import ROOT

RESULTS = ROOT / "docs" / "evidence" / "measurements" / "per-key.md"


def test_the_six_workloads_are_those_of_the_figures_and_told_what_the_thesis_tells() -> None:
    figures = {(workload.name, workload.thesis_rate) for workload in THESIS_SIX}

    assert figures == {  # 5.7-5.8, 5.9-5.10, 5.11, 5.12, 5.13, 5.14
        ("Poisson 3/min", 3),
        ("Poisson 4/min", 4),
        ("spike 50 s, 150", 9),
        ("spike 100 s, 250", 9),
        ("spike 150 s, 300", 9),
        ("spike 300 s, 600", 9),
    }


def test_poisson_workloads_of_the_thesis_end_after_half_an_hour_and_spikes_when_all_is_over() -> None:
    assert [w.until_us for w in THESIS_SIX] == [HALF_HOUR_S * US_PER_S] * 2 + [None] * 4


def test_the_family_has_25_workloads_with_names_of_their_own() -> None:
    names = [workload.name for workload in family(DAY_S)]

    assert len(set(names)) == len(names) == 25


@pytest.mark.parametrize("workload", [*THESIS_SIX, *family(HALF_HOUR_S)], ids=lambda workload: workload.name)
def test_a_seed_gives_one_trace_and_another_seed_another(workload: SyntheticWorkload) -> None:
    trace_us = workload.arrivals_us(3)

    assert trace_us == workload.arrivals_us(3) == sorted(trace_us)
    assert trace_us != workload.arrivals_us(4)


@pytest.mark.parametrize(
    "workload", [w for w in family(HALF_HOUR_S) if w.duration_s is not None], ids=lambda workload: workload.name
)
def test_no_request_comes_after_the_duration(workload: SyntheticWorkload) -> None:
    assert max(workload.arrivals_us(1), default=0) <= HALF_HOUR_S * US_PER_S


def test_a_rate_beyond_the_configurator_gets_its_highest() -> None:
    assert Thesis.at_rate(60) == Thesis.configured(48, 4)
    assert Thesis.at_rate(40) == Thesis.configured(40, 4)


def test_every_workload_is_in_the_table_of_results() -> None:
    results = RESULTS.read_text()

    assert [w.name for w in (*THESIS_SIX, *family(DAY_S)) if f"| {w.name} |" not in results] == []
