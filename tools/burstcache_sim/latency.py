"""Latency of requests: each tier's mean and the spread around it, both assumed rather than simulated.

A tier's latencies are log-normally distributed around its mean, with the same spread for every tier. The network
between client and system adds a constant. The thesis publishes only means. The spread is this project's assumption, by
which one request in a hundred takes about twice its tier's mean.

A response's latency is its time to first byte plus its size divided by the tier's bandwidth (`bill.latency_model`). The
fields here are times to first byte. A mean over requests also includes the transfer time of the mean size.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from math import exp, isfinite, log
from statistics import NormalDist

from burstcache.core.errors import InvalidSettingError
from burstcache.core.latency import FIRST_BYTE_MS

THESIS_NETWORK_MS = 24.0  # between client and system over the internet (thesis, section 5.2)
FRONT_DOOR_MS = 10.0  # of API Gateway and proxy, as billed for a proxied hit (`bill.usage`)
HIT_WITHIN_MS = 15.0  # a response with a later first byte is not a hit
_SPREAD = 0.3  # standard deviation of a latency's logarithm
_STANDARD = NormalDist()
_ROUNDING = 1e-6  # tolerance of a rank that should be an integer
_HALVINGS = 60  # bisection steps for a quantile, enough for a double's precision


@dataclass(frozen=True, slots=True)
class TierLatencies:
    """The mean time to first byte of each tier's responses, as seen by the proxy [ms].

    Source:
        S3: 25.3 ms for 64 KiB, the median of a single ranged GET (Altinity/ClickHouse#2181, 2026); 26 ms for 128 KiB
        (sirupsen/napkin-math#39, 2026). Cache function and Redis: thesis, section 5.2, objects of 100 B.
    """

    s3_ms: float = float(FIRST_BYTE_MS["s3"])
    lambda_ms: float = 1.5
    redis_ms: float = float(FIRST_BYTE_MS["redis"])
    network_ms: float = 0.0  # between client and system, the same for all tiers
    spread: float = _SPREAD  # standard deviation of the logarithm (0: constant latencies)

    def __post_init__(self) -> None:
        for name in self.__slots__:
            if not (isfinite(value := getattr(self, name)) and value >= 0):
                raise InvalidSettingError(f"{name} {value}: expected a number of at least 0")


TODAYS_LATENCIES = TierLatencies()
# Thesis, section 5.2, end to end. Its objects of 100 B have negligible transfer times.
THESIS_AT_THE_CLIENT = TierLatencies(s3_ms=50.0, network_ms=THESIS_NETWORK_MS)


@dataclass(frozen=True, slots=True)
class LatencySummary:
    """The latency distribution over all requests of a run [ms]. All values are 0 without requests."""

    mean_ms: float
    p50_ms: float
    p90_ms: float
    p95_ms: float
    p99_ms: float


def summarise(n_s3: int, n_lambda: int, n_redis: int, latencies: TierLatencies = TODAYS_LATENCIES) -> LatencySummary:
    """Return mean and quantiles of the latency for these request counts per tier, exact under the model."""
    means_ms = (latencies.s3_ms, latencies.lambda_ms, latencies.redis_ms)
    return summarise_tiers(list(zip((n_s3, n_lambda, n_redis), means_ms, strict=True)), latencies)


def summarise_tiers(tiers: list[tuple[int, float]], latencies: TierLatencies = TODAYS_LATENCIES) -> LatencySummary:
    """Return mean and quantiles of the latency for tiers with these request counts and means [ms]."""
    served = [(n, mean_ms) for n, mean_ms in tiers if n]
    if not served:
        return LatencySummary(0.0, 0.0, 0.0, 0.0, 0.0)
    mean_ms = sum(n * mean_ms for n, mean_ms in served) / sum(n for n, _ in served)
    p50, p90, p95, p99 = (_quantile_ms(served, share, latencies.spread) for share in (0.5, 0.9, 0.95, 0.99))
    network_ms = latencies.network_ms
    return LatencySummary(*(ms + network_ms for ms in (mean_ms, p50, p90, p95, p99)))


def _quantile_ms(served: list[tuple[int, float]], share: float, spread: float) -> float:
    """Return the latency that a share of the requests does not exceed, by bisection between the tiers' quantiles."""
    total = sum(n for n, _ in served)
    if not spread:
        return _stepped_ms(served, share * total)
    factor = exp(spread * _STANDARD.inv_cdf(share) - _shift(spread))
    quantiles_ms = [mean_ms * factor for _, mean_ms in served]
    low_ms, high_ms = min(quantiles_ms), max(quantiles_ms)
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
    """Return the logarithm of a log-normal distribution's ratio of mean to median."""
    return spread**2 / 2
