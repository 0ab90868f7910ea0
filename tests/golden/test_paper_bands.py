"""The bands of table A.1 and those of another implementation with its own traces differ by chance only."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from burstcache_sim.thesis.bands import band, percentile
from burstcache_sim.thesis.published import EXPERIMENTS, Poisson, Workload
from burstcache_sim.thesis.samples import QUANTITIES, Samples, by_workload, sample

pytestmark = pytest.mark.slow

BANDS: dict[str, Any] = json.loads((Path(__file__).parent / "data" / "bands.json").read_text())
NAMES = (
    "in_memory_pct", "lambda_s", "invocations", "cold_starts", "redis_s", "redis_starts", "s3_requests",
    "total_cost_usd",
)  # fmt: skip
TRACES = 1_000
THEIR_TRACES = 40_000  # every percentile of theirs is a multiple of 1/80,000
READINGS = [(workload, True) for workload in by_workload()]
READINGS += [(workload, False) for workload in by_workload() if isinstance(workload, Poisson)]


@pytest.fixture(scope="module", params=READINGS, ids=str)
def reading(request: pytest.FixtureRequest) -> tuple[Samples, str]:
    workload: Workload
    workload, is_n_fixed = request.param
    samples = sample(workload, range(1, TRACES + 1), is_n_fixed=is_n_fixed)
    return samples, "fixed_n" if is_n_fixed else "poisson_n"


def test_means_differ_by_less_than_five_standard_errors(reading: tuple[Samples, str]) -> None:
    samples, name = reading

    for figure, values in samples.by_figure.items():
        for column, quantity in zip(values.T, NAMES, strict=True):
            ours, theirs = band(column), BANDS[figure][name][quantity]
            standard_error = ours.standard_error * (1 + TRACES / THEIR_TRACES) ** 0.5
            # a tenth of a cold start in a thousand traces may not occur in ours at all
            assert abs(ours.mean - theirs["mean"]) <= 5 * standard_error + 2e-3 * theirs["mean"], (figure, quantity)


def test_their_5_and_95_percent_cut_off_as_much_of_our_traces(reading: tuple[Samples, str]) -> None:
    samples, name = reading
    noise = 5 * (0.05 * 0.95 / TRACES) ** 0.5

    for figure, values in samples.by_figure.items():
        for column, quantity in zip(values.T, NAMES, strict=True):
            theirs = BANDS[figure][name][quantity]
            slack = 1e-6 * max(1e-3, theirs["p95"])
            assert np.mean(column < theirs["p5"] - slack) <= 0.05 + noise, (figure, quantity)
            assert np.mean(column <= theirs["p5"] + slack) >= 0.05 - noise, (figure, quantity)
            assert np.mean(column < theirs["p95"] - slack) <= 0.95 + noise, (figure, quantity)
            assert np.mean(column <= theirs["p95"] + slack) >= 0.95 - noise, (figure, quantity)


def test_published_values_have_the_same_percentile_but_for_chance(reading: tuple[Samples, str]) -> None:
    samples, name = reading
    published = {experiment.figure: experiment.published for experiment in EXPERIMENTS}

    for figure, values in samples.by_figure.items():
        for column, quantity, text in zip(values.T, QUANTITIES, NAMES, strict=True):
            found = percentile(column, quantity.of_row(published[figure]))
            assert found == pytest.approx(BANDS[figure][name][text]["thesis_percentile"], abs=8), (figure, text)
