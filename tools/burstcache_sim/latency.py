"""The latency of a request: each tier's mean, and how requests spread around it. Assumed, not simulated.

A tier's latencies are log-normal around its mean, spread alike for every tier; what the network between client and
system adds is constant. The thesis publishes means only: the spread is ours, chosen so that one request in a hundred
takes about twice as long as its tier's mean.

An answer takes the time to its first byte and then its size divided by the tier's bandwidth (`bill.clock`). The fields
here are times to the first byte; a mean over requests adds the time of their mean size.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from math import exp, isfinite, log
from statistics import NormalDist

from burstcache.core.errors import InvalidSettingError

THESIS_NETWORK_MS = 24.0  # what the client's way through the internet added (thesis, section 5.2)
FRONT_DOOR_MS = 10.0  # of API Gateway and proxy, as the bill counts a proxied hit (`bill.usage`)
HIT_WITHIN_MS = 15.0  # an answer whose first byte takes longer is no hit
_SPREAD = 0.3  # standard deviation of a latency's logarithm
_STANDARD = NormalDist()
_ROUNDING = 1e-6  # of a rank that should be a whole number
_HALVINGS = 60  # of the interval that holds a quantile: beyond a double's precision


@dataclass(frozen=True, slots=True)
class TierLatencies:
    """The mean time to the first byte of each tier's answer, seen by the proxy [ms].

    Source:
        S3: 25.3 ms for 64 KiB, the median of a single ranged GET (Altinity/ClickHouse#2181, 2026); 26 ms for 128 KiB
        (sirupsen/napkin-math#39, 2026). Cache function and Redis: thesis, section 5.2, objects of 100 B.
    """

    s3_ms: float = 25.0
    lambda_ms: float = 1.5
    redis_ms: float = 1.0
    network_ms: float = 0.0  # between client and system, the same for all
    spread: float = _SPREAD  # standard deviation of the logarithm; 0: every request takes its tier's mean

    def __post_init__(self) -> None:
        for name in self.__slots__:
            if not (isfinite(value := getattr(self, name)) and value >= 0):
                raise InvalidSettingError(f"{name} {value}: expected a number of at least 0")


TODAYS_LATENCIES = TierLatencies()
# Thesis, section 5.2, end to end; its objects of 100 B take no time of their own.
THESIS_AT_THE_CLIENT = TierLatencies(s3_ms=50.0, network_ms=THESIS_NETWORK_MS)


@dataclass(frozen=True, slots=True)
class LatencySummary:
    """The distribution over all requests of a run [ms]; all 0 if there was none."""

    mean_ms: float
    p50_ms: float
    p90_ms: float
    p95_ms: float
    p99_ms: float


def summarise(n_s3: int, n_lambda: int, n_redis: int, latencies: TierLatencies = TODAYS_LATENCIES) -> LatencySummary:
    """Return mean and quantiles of the latency for numbers of requests per tier, exact under the spread's model."""
    means_ms = (latencies.s3_ms, latencies.lambda_ms, latencies.redis_ms)
    return summarise_tiers(list(zip((n_s3, n_lambda, n_redis), means_ms, strict=True)), latencies)


def summarise_tiers(tiers: list[tuple[int, float]], latencies: TierLatencies = TODAYS_LATENCIES) -> LatencySummary:
    """Return mean and quantiles of the latency for numbers of requests and the mean of each one's tier [ms]."""
    served = [(n, mean_ms) for n, mean_ms in tiers if n]
    if not served:
        return LatencySummary(0.0, 0.0, 0.0, 0.0, 0.0)
    mean_ms = sum(n * mean_ms for n, mean_ms in served) / sum(n for n, _ in served)
    p50, p90, p95, p99 = (_quantile_ms(served, share, latencies.spread) for share in (0.5, 0.9, 0.95, 0.99))
    away_ms = latencies.network_ms
    return LatencySummary(mean_ms + away_ms, p50 + away_ms, p90 + away_ms, p95 + away_ms, p99 + away_ms)


def _quantile_ms(served: list[tuple[int, float]], share: float, spread: float) -> float:
    """Return the latency that `share` of the requests do not exceed; it lies between the tiers' quantiles."""
    total = sum(n for n, _ in served)
    if not spread:
        return _stepped_ms(served, share * total)
    factor = exp(spread * _STANDARD.inv_cdf(share) - _shift(spread))
    own_ms = [mean_ms * factor for _, mean_ms in served]
    low_ms, high_ms = min(own_ms), max(own_ms)
    for _ in range(_HALVINGS):
        middle_ms = (low_ms + high_ms) / 2
        if sum(n * _share_within(middle_ms, mean_ms, spread) for n, mean_ms in served) < share * total:
            low_ms = middle_ms
        else:
            high_ms = middle_ms
    return high_ms


def _stepped_ms(served: list[tuple[int, float]], rank: float) -> float:
    by_mean = sorted(served, key=lambda tier: tier[1])
    below = accumulate(n for n, _ in by_mean)
    return next(mean_ms for (_, mean_ms), reached in zip(by_mean, below, strict=True) if reached >= rank - _ROUNDING)


def _share_within(latency_ms: float, mean_ms: float, spread: float) -> float:
    if not mean_ms or not latency_ms:
        return float(latency_ms >= mean_ms)
    return _STANDARD.cdf((log(latency_ms / mean_ms) + _shift(spread)) / spread)


def _shift(spread: float) -> float:
    """Return how far a log-normal's median lies below its mean, as a logarithm."""
    return spread**2 / 2
