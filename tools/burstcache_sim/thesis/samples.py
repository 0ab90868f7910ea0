"""Samples of an experiment: the results for many random traces, as columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING

from burstcache.core.parameters import US_PER_S
from burstcache_sim.policies.thesis import Thesis
from burstcache_sim.replay import replay_each
from burstcache_sim.thesis.published import EXPERIMENTS, TABLE_A1, Experiment, Poisson, Row, Spike, Workload
from burstcache_sim.traces.generate import poisson, spike
from burstcache_sim.traces.trace import Trace
from burstcache_sim.units import run_cost_units, usd
from burstcache_sim.world.result import RunResult
from burstcache_sim.world.scenario import Scenario

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Quantity:
    """One column of table A.1, with a format, and functions that return the value in a run and in the thesis."""

    text: str
    decimals: int
    of_run: Callable[[RunResult], float]
    of_row: Callable[[Row], float]


QUANTITIES = (
    Quantity("in memory [%]", 2, lambda run: _in_memory_pct(run), lambda row: row.in_memory_pct),
    Quantity("Lambda [s]", 1, lambda run: run.lambda_ms / 1000, lambda row: row.lambda_ms / 1000),
    Quantity("invocations", 1, lambda run: run.invocations, lambda row: row.invocations),
    Quantity("cold starts", 2, lambda run: run.cold_starts, lambda row: row.cold_starts),
    Quantity("Redis [s]", 0, lambda run: run.redis_s, lambda row: row.redis_s),
    Quantity("Redis starts", 2, lambda run: run.redis_starts, lambda row: row.redis_starts),
    Quantity("S3 requests", 1, lambda run: run.s3_requests, lambda row: row.s3_requests),
    Quantity("total [USD]", 5, lambda run: usd(run_cost_units(run)), lambda row: row.total_usd),
)


@dataclass(frozen=True, slots=True)
class Samples:
    """The runs of one workload, in the order of the random traces."""

    seeds: tuple[int, ...]
    spans_us: NDArray[np.int64]  # from a trace's first request to its last
    by_figure: dict[str, NDArray[np.float64]]  # one row per trace, one column per quantity


def policy_of(experiment: Experiment) -> Thesis:
    """Return an experiment's policy, derived by the configurator."""
    return Thesis.configured(experiment.rate_per_min, experiment.sensitivity)


def arrivals_us(workload: Workload, seed: int, n: int | None) -> list[int]:
    """Return the arrivals of one random trace of a workload [us].

    Args:
        workload: Workload of the thesis.
        seed: Seed of the random numbers.
        n: Number of requests. The n requests of a Poisson process are uniformly distributed. If None, the process
        determines the number, and a spike has as many requests as in the thesis.
    """
    if isinstance(workload, Spike):
        return spike(seed, workload.std_s, n or requests_of(workload))
    if n is None:
        return poisson(seed, workload.rate_per_min, workload.duration_s)
    random = Random(seed)
    return sorted(round(random.uniform(0, workload.duration_s * US_PER_S)) for _ in range(n))


def horizon_us(workload: Workload) -> int | None:
    """Return the end of a workload's runs [us], or None if a run ends after its last event."""
    return workload.duration_s * US_PER_S if isinstance(workload, Poisson) else None


def by_workload() -> dict[Workload, list[Experiment]]:
    """Return the experiments by workload. Experiments with the same workload share the traces."""
    groups: dict[Workload, list[Experiment]] = {}
    for experiment in EXPERIMENTS:
        groups.setdefault(experiment.workload, []).append(experiment)
    return groups


def requests_of(workload: Workload) -> int:
    """Return the number of requests in the thesis's trace of a workload."""
    return TABLE_A1[by_workload()[workload][0].figure].n


def sample(workload: Workload, seeds: Iterable[int], *, is_n_fixed: bool = True) -> Samples:
    """Replay one random trace per seed for every experiment of a workload.

    Args:
        workload: Workload of the thesis.
        seeds: Seeds of the traces.
        is_n_fixed: Whether every trace has as many requests as the thesis's own.
    """
    import numpy as np

    experiments = by_workload()[workload]
    policies = [policy_of(experiment) for experiment in experiments]
    n, until_us = requests_of(workload) if is_n_fixed else None, horizon_us(workload)
    taken, spans_us, rows = [], [], []
    for seed in seeds:
        trace_us = np.array(arrivals_us(workload, seed, n), np.int64)
        runs = replay_each(policies, Scenario(Trace(trace_us), until_us=until_us))
        taken.append(seed)
        spans_us.append(int(trace_us[-1] - trace_us[0]) if len(trace_us) else 0)
        rows.append([[quantity.of_run(run) for quantity in QUANTITIES] for run in runs])
    columns = np.array(rows, np.float64)
    by_figure = {experiment.figure: columns[:, i] for i, experiment in enumerate(experiments)}
    return Samples(tuple(taken), np.array(spans_us, np.int64), by_figure)


def most_alike(values: NDArray[np.float64], published: Row) -> int:
    """Return the index of the run closest to the published row, with distances in standard deviations."""
    import numpy as np

    spread = values.std(axis=0)
    target = np.array([quantity.of_row(published) for quantity in QUANTITIES])
    distances = (values - target) / np.where(spread > 0, spread, 1)
    return int(np.argmin((distances**2).sum(axis=1)))


def _in_memory_pct(run: RunResult) -> float:
    return 100 * (run.n_lambda + run.n_redis) / run.n if run.n else 0.0
