"""An hour of a web server log, in place of the thesis's own log (figures 5.3 to 5.6)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from burstcache.core.errors import InvalidSettingError
from burstcache.core.parameters import US_PER_S
from burstcache_sim.policies.thesis import Thesis
from burstcache_sim.replay import replay
from burstcache_sim.thesis.published import LOG_SENSITIVITIES, S3_ONLY_REQUESTS
from burstcache_sim.traces.read import read_trace
from burstcache_sim.traces.select import of_rank
from burstcache_sim.traces.trace import Trace
from burstcache_sim.units import US_PER_H
from burstcache_sim.world.result import RunResult
from burstcache_sim.world.scenario import Scenario

US_PER_MIN = 60 * US_PER_S
LOG_SOURCE = "https://ita.ee.lbl.gov/html/contrib/NASA-HTTP.html"


@dataclass(frozen=True, slots=True)
class LogHour:
    """The requests for a log's most requested object in one hour, with times from the start of the hour [us]."""

    number: int  # of the hour in the log, from 1
    key: str
    rate_per_min: int  # the object's mean rate over the whole log, which an administrator "knows from the past"
    arrivals_us: tuple[int, ...]

    def run(self, sensitivity: int) -> RunResult:
        """Replay the hour under the thesis's policy."""
        policy = Thesis.at_rate(self.rate_per_min, sensitivity)
        return replay(policy, Scenario(Trace.of_times(self.arrivals_us), until_us=US_PER_H))

    def runs(self) -> dict[str, RunResult]:
        """Replay the hour with the sensitivities of the thesis's figures."""
        return {figure: self.run(sensitivity) for figure, sensitivity in LOG_SENSITIVITIES.items()}


def log_hours(log: str) -> list[LogHour]:
    """Return the log's first hour, as in the thesis, and the full hour with the load closest to the thesis's.

    Args:
        log: File, folder or glob in a format that `sim inspect` reads.

    Raises:
        BadLogError: The log cannot be read.
        InvalidSettingError: Neither hour has a request for the most requested object.
    """
    trace = read_trace(log)
    chosen = of_rank(trace, 1)
    origin_us, end_us = int(trace.arrivals_us[0]), int(trace.arrivals_us[-1])
    hours = _by_hour(chosen.arrivals_us.tolist(), origin_us, (end_us - origin_us) // US_PER_H + 1)
    whole = range(max(1, len(hours) - 1))  # the last hour may be incomplete
    closest = min(whole, key=lambda number: abs(len(hours[number]) - S3_ONLY_REQUESTS))
    rate_per_min = max(1, round(len(chosen) * US_PER_MIN / max(end_us - origin_us, 1)))
    numbers = [number for number in dict.fromkeys((0, closest)) if hours[number]]
    if not numbers:
        raise InvalidSettingError(f"{log}: expected an hour with requests for its most requested object")
    key = chosen.keys[0] if chosen.keys else ""
    return [LogHour(number + 1, key, rate_per_min, tuple(hours[number])) for number in numbers]


def _by_hour(times_us: Sequence[int], origin_us: int, hour_count: int) -> list[list[int]]:
    hours: list[list[int]] = [[] for _ in range(hour_count)]
    for at_us in times_us:
        number, since_us = divmod(at_us - origin_us, US_PER_H)
        hours[number].append(since_us)
    return hours
