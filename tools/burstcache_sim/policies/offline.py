"""The thesis's offline scheduler of endpoints, which knows the next 90 seconds of requests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from burstcache.core.parameters import US_PER_S
from burstcache_sim.units import INVOCATION_UNITS, LAMBDA_UNITS_PER_US, REDIS_UNITS_PER_US, S3_GET_UNITS

_REQUESTS_AHEAD = 9  # Redis pays for this many requests, including the current one, within `_AHEAD_US`
_AHEAD_US = 90 * US_PER_S  # the look-ahead
_BRIDGE_US = 30 * US_PER_S  # Lambda serves while Redis boots
_REDIS_US = 60 * US_PER_S  # the first run, from readiness
_LAMBDA_US = 5 * US_PER_S
_REDIS_GAP_US = 104_600_000  # the longest gap that Redis bridges


@dataclass(frozen=True, slots=True)
class OfflineResult:
    """Runs that the algorithm schedules [us]. Overlapping runs each count in full."""

    lambda_runs_us: tuple[tuple[int, int], ...]
    redis_runs_us: tuple[tuple[int, int], ...]

    @property
    def lambda_us(self) -> int:
        """Total length of all runs of cache functions [us]."""
        return sum(end_us - start_us for start_us, end_us in self.lambda_runs_us)

    @property
    def redis_us(self) -> int:
        """Total length of all runs of Redis [us]."""
        return sum(end_us - start_us for start_us, end_us in self.redis_runs_us)

    @property
    def cost_units(self) -> int:
        """Cost of running time at the thesis's prices. The thesis ignores the price of requests here."""
        return LAMBDA_UNITS_PER_US * self.lambda_us + REDIS_UNITS_PER_US * self.redis_us

    @property
    def cost_units_with_requests(self) -> int:
        """`cost_units` plus an invocation per run of a cache function and an S3 GET per run of Redis."""
        requests_units = INVOCATION_UNITS * len(self.lambda_runs_us) + S3_GET_UNITS * len(self.redis_runs_us)
        return self.cost_units + requests_units


@dataclass(slots=True)
class _Schedule:
    """Runs so far, as [start, end]. The last run may still be extended."""

    arrivals_us: Sequence[int]
    lambda_runs_us: list[list[int]] = field(default_factory=list)
    redis_runs_us: list[list[int]] = field(default_factory=list)
    is_in_redis: bool = False

    def serve(self, index: int) -> None:
        """Handle one request (algorithm 2)."""
        at_us = self.arrivals_us[index]
        if self.is_in_redis:
            redis_run = self.redis_runs_us[-1]
            if at_us <= redis_run[1]:
                return
            if at_us - redis_run[1] <= _REDIS_GAP_US:
                redis_run[1] = at_us
                return
        elif self.lambda_runs_us and at_us < self.lambda_runs_us[-1][1]:
            lasts = self._load_lasts(index)
            self.lambda_runs_us[-1][1] += _BRIDGE_US if lasts else _LAMBDA_US
            if lasts:
                self._start_redis(at_us)
            return
        self._check_start(index)

    def _check_start(self, index: int) -> None:
        """Start new runs (algorithm 3)."""
        at_us = self.arrivals_us[index]
        self.is_in_redis = False
        lasts = self._load_lasts(index)
        self.lambda_runs_us.append([at_us, at_us + (_BRIDGE_US if lasts else _LAMBDA_US)])
        if lasts:
            self._start_redis(at_us)

    def _start_redis(self, at_us: int) -> None:
        ready_us = at_us + _BRIDGE_US
        self.redis_runs_us.append([ready_us, ready_us + _REDIS_US])
        self.is_in_redis = True

    def _load_lasts(self, index: int) -> bool:
        last = index + _REQUESTS_AHEAD - 1
        return last < len(self.arrivals_us) and self.arrivals_us[last] - self.arrivals_us[index] <= _AHEAD_US


def offline(arrivals_us: Sequence[int]) -> OfflineResult:
    """Schedule cache functions and Redis for a trace of one key.

    Args:
        arrivals_us: Times of the requests, sorted, repeats allowed [us].

    Source:
        Thesis, appendix A.4, algorithms 2 and 3; `docs/understand/simulation.md`, "The offline algorithm".
    """
    schedule = _Schedule([int(at_us) for at_us in arrivals_us])
    for index in range(len(schedule.arrivals_us)):
        schedule.serve(index)
    return OfflineResult(
        lambda_runs_us=tuple((start_us, end_us) for start_us, end_us in schedule.lambda_runs_us),
        redis_runs_us=tuple((start_us, end_us) for start_us, end_us in schedule.redis_runs_us),
    )
