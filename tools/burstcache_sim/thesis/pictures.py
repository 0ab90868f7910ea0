"""Pictures like the thesis's figures, drawn for the random trace whose run is closest to the published run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from burstcache.core.prices import THESIS, price_sheet
from burstcache_sim.bill.comparison import Billing
from burstcache_sim.bill.latency_model import LatencyModel
from burstcache_sim.bill.nodes import always_on_name
from burstcache_sim.bill.spending import thesis_setup
from burstcache_sim.latency import THESIS_AT_THE_CLIENT
from burstcache_sim.optimum.exact import least_cost
from burstcache_sim.optimum.plans import plan
from burstcache_sim.policies.offline import offline
from burstcache_sim.policies.thesis import Thesis
from burstcache_sim.progress import progress
from burstcache_sim.replay import replay
from burstcache_sim.report.drawing import write_image
from burstcache_sim.report.money import money_over_time
from burstcache_sim.report.run_figure import run_figure, run_summary
from burstcache_sim.thesis.log_hour import LogHour
from burstcache_sim.thesis.published import EXPERIMENTS, LOG_SENSITIVITIES, Experiment, Workload
from burstcache_sim.thesis.samples import (
    Samples,
    arrivals_us,
    horizon_us,
    most_alike,
    policy_of,
    requests_of,
)
from burstcache_sim.thesis.tables import workload_text
from burstcache_sim.traces.trace import Trace
from burstcache_sim.units import run_cost_units, usd
from burstcache_sim.world.scenario import Scenario
from burstcache_terminal.text import number_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from burstcache_sim.policies.policy import Policy
    from burstcache_sim.world.result import RunResult

_AT_THE_CLIENT = LatencyModel(THESIS_AT_THE_CLIENT)  # as in the thesis's figures


def thesis_pictures(fixed: Mapping[Workload, Samples], folder: Path) -> Iterator[Path]:
    """Draw figures 5.7 to 5.14 into a folder, and yield the files."""
    for experiment in progress(EXPERIMENTS, text="pictures"):
        yield _written(_of_experiment(experiment, fixed[experiment.workload]), folder, experiment.figure)


def log_pictures(hours: Sequence[LogHour], folder: Path) -> Iterator[Path]:
    """Draw each hour of a log like figures 5.3 to 5.5, and yield the files."""
    for hour in hours:
        for figure, result in hour.runs().items():
            title = f"As figure {figure}: {hour.key}, hour {hour.number}, sensitivity {LOG_SENSITIVITIES[figure]}"
            policy = Thesis.at_rate(hour.rate_per_min, LOG_SENSITIVITIES[figure])
            yield _written(_draw(policy, hour.arrivals_us, result, title), folder, f"{figure}-hour-{hour.number}")


def _of_experiment(experiment: Experiment, samples: Samples) -> Figure:
    values = samples.by_figure[experiment.figure]
    seed = samples.seeds[most_alike(values, experiment.published)]
    trace_us = arrivals_us(experiment.workload, seed, requests_of(experiment.workload))
    scenario = Scenario(Trace.of_times(trace_us), until_us=horizon_us(experiment.workload))
    policy = policy_of(experiment)
    result = replay(policy, scenario)
    setting = f"rate {experiment.rate_per_min}, sensitivity {experiment.sensitivity}, seed {seed}"
    title = f"As figure {experiment.figure}: {workload_text(experiment.workload)}, {setting}"
    return _draw(policy, trace_us, result, title)


def _draw(policy: Policy, trace_us: Sequence[int], result: RunResult, title: str) -> Figure:
    offline_run, prices = offline(trace_us), price_sheet(THESIS)
    billing = Billing(prices, thesis_setup(prices), only_cache=True)
    cache_usd = usd(run_cost_units(result))
    names = ("s3-only", always_on_name(billing.setup.instance_type))
    latencies = _AT_THE_CLIENT.with_burstcache(result), _AT_THE_CLIENT.without(result.n)
    return run_figure(
        trace_us,
        result,
        offline=offline_run,
        offline_usd=usd(offline_run.cost_units),
        optimum=plan(trace_us),
        optimum_usd=usd(least_cost(trace_us)[0]),
        money=money_over_time(policy, Trace.of_times(trace_us), billing, result, names),
        title=title,
        subtitle=run_summary(result, *latencies, f"{number_text(cache_usd)} USD for the cache alone"),
        usd=cache_usd,
    )


def _written(figure: Figure, folder: Path, name: str) -> Path:
    path = folder / f"figure-{name}.png"
    write_image(figure, path)
    return path
