"""The thesis's own runs on AWS, for a comparison with replays of the same traces in the simulator.

The author published traces, each request's tier and latency, and the bills (GitHub, bunert/caching-system,
`code/evaluation`, 2022). The files have no licence and are not part of this project, so users pass the folder.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from burstcache.core.errors import InvalidSettingError
from burstcache.core.parameters import US_PER_S
from burstcache_sim.policies.thesis import Thesis
from burstcache_sim.replay import replay
from burstcache_sim.thesis.published import EXPERIMENTS, LOG_SENSITIVITIES, Spike
from burstcache_sim.traces.trace import Trace
from burstcache_sim.world.result import RunResult
from burstcache_sim.world.scenario import Scenario
from burstcache_sim.world.timings import THESIS_TIMINGS, Timings

_TIERS = {"S3": "S", "lambda": "L", "redis": "R"}
_LOG_RATE_PER_MIN = 3
_SPIKES = {50: "7-spike-simple-50-150", 100: "12-spike-simple-100-250"}
_SPIKES |= {150: "16-spike-simple-150-300", 300: "38-spike-simple-300-600"}


@dataclass(frozen=True, slots=True)
class OwnRun:
    """One figure's run: each request's arrival and tier, and the policy derived by the configurator."""

    figure: str
    policy: Thesis
    arrivals_us: tuple[int, ...]
    tiers: str  # S, L or R per request
    latencies_ms: tuple[float, ...]  # at the client
    until_us: int | None  # end of the run (None: a spike, which ends after its last event)

    def replay(self, timings: Timings = THESIS_TIMINGS) -> RunResult:
        """Replay the run's trace in the simulator."""
        return replay(self.policy, Scenario(Trace.of_times(self.arrivals_us), until_us=self.until_us, timings=timings))

    def differing(self, result: RunResult) -> int:
        """Return the number of requests that another tier answered in the replay."""
        return sum(tier != replayed for tier, replayed in zip(self.tiers, result.tiers, strict=True))


@dataclass(frozen=True, slots=True)
class _Files:
    figure: str
    trace: str
    run: str
    rate_per_min: int
    sensitivity: int
    is_spike: bool


def own_runs(folder: str) -> list[OwnRun]:
    """Return the runs of figures 5.3 to 5.14.

    Args:
        folder: The thesis's evaluation, with the folders `traces` and `simulation`.

    Raises:
        InvalidSettingError: A file is missing or has a line that cannot be read.
    """
    return [_own_run(Path(folder), files) for files in _files()]


def slow_stops(run: OwnRun, *, boot_s: int, stops_s: Sequence[int]) -> list[tuple[int, RunResult]]:
    """Replay a run once for each time that instances may take to stop."""
    timings = replace(THESIS_TIMINGS, redis_boot_us=boot_s * US_PER_S)
    return [(stop_s, run.replay(replace(timings, redis_stop_us=stop_s * US_PER_S))) for stop_s in stops_s]


def _files() -> list[_Files]:
    log, system = "60-1-ec2log", "simulation/simulations/system"
    files = [
        _Files(figure, log, f"{system}-{log}-final-3.0-{sensitivity}", _LOG_RATE_PER_MIN, sensitivity, False)
        for figure, sensitivity in LOG_SENSITIVITIES.items()
    ]
    for each in EXPERIMENTS:
        rate, sensitivity = each.rate_per_min, each.sensitivity
        if isinstance(each.workload, Spike):
            trace = _SPIKES[each.workload.std_s]
            run = f"simulation/spike_simulations/system-{trace}-final-{rate}-{sensitivity}"
        else:
            trace = f"30-poisson-{rate}"
            run = f"{system}-{trace}-final-{sensitivity}"
        files.append(_Files(each.figure, trace, run, rate, sensitivity, isinstance(each.workload, Spike)))
    return files


def _own_run(folder: Path, files: _Files) -> OwnRun:
    trace = _rows(folder / "traces" / f"{files.trace}.txt", columns=4)
    run = folder / f"{files.run}.txt"
    (start_s, end_s), *answers = _rows(run, columns=6, first_columns=2)
    by_number = {row[0]: row for row in answers}
    if missing := [number for number, *_ in trace if number not in by_number]:
        raise InvalidSettingError(f"{run}: expected an answer to request {missing[0]} of {files.trace}.txt")
    answered = [by_number[number] for number, *_ in trace]
    try:
        return OwnRun(
            files.figure,
            Thesis.configured(files.rate_per_min, files.sensitivity),
            tuple(round(float(at_s) * US_PER_S) for _, at_s, *_ in trace),
            "".join(_TIERS[row[4]] for row in answered),
            tuple(float(row[5]) for row in answered),
            None if files.is_spike else (int(end_s) - int(start_s)) * US_PER_S,
        )
    except (KeyError, ValueError) as problem:
        raise InvalidSettingError(f"{run}: expected times, and S3, lambda or redis, not {problem}") from None


def _rows(path: Path, *, columns: int, first_columns: int | None = None) -> list[list[str]]:
    """Return a file's rows, split at tabs."""
    try:
        rows = [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as problem:
        raise InvalidSettingError(f"--runs: {path} cannot be read: {problem}") from None
    for number, row in enumerate(rows, 1):
        expected = first_columns if first_columns and number == 1 else columns
        if len(row) != expected:
            raise InvalidSettingError(f"{path}:{number}: expected {expected} fields separated by tabs, not {len(row)}")
    if not rows:
        raise InvalidSettingError(f"{path}: expected rows, but the file is empty")
    return rows
