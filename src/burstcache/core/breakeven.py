"""The break-even policy. Its only parameter is the value of a hit, and it needs no estimate of request rates.

The minimum run of Redis costs as much as 13.4 s of a cache function with 1 GB. A speculative boot is therefore cheap,
and bridging it with a cache function is expensive. All functions are pure. Times are integer microseconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import isqrt

from burstcache.core.errors import InvalidSettingError
from burstcache.core.parameters import US_PER_S

ALWAYS_US = 10**17  # no limit, since it is longer than any trace


@dataclass(frozen=True, slots=True)
class BreakevenPrices:
    """The prices that the policy compares with the value of a hit."""

    lambda_usd_per_s: Fraction = Fraction("1.67e-5")
    redis_usd_per_s: Fraction = Fraction("0.0134") / 3600
    s3_get_usd: Fraction = Fraction("4.3e-7")
    run_usd: Fraction = Fraction(0)  # fixed price of a boot and a stop, excluding running time
    least_s: int = 60  # minimum billed time of Redis


THESIS_PRICES = BreakevenPrices()


@dataclass(frozen=True, slots=True)
class BreakevenParameters:
    """The thresholds of the policy. Times in microseconds."""

    boot_requests: int  # Redis boots when this many requests …
    boot_within_us: int  # … arrive in less than this time
    redis_idle_us: int  # idle time after which Redis stops
    redis_least_us: int = 60 * US_PER_S  # minimum run of Redis, which is billed in any case


def breakeven(hit_value_usd: Fraction, prices: BreakevenPrices = THESIS_PRICES) -> BreakevenParameters:
    """Derive the parameters from the value of a hit, with times truncated to microseconds.

    Args:
        hit_value_usd: Value of one request served from memory, > 0 [USD].
        prices: Prices of Lambda, Redis and S3.

    Raises:
        InvalidSettingError: The value is not above 0.

    Source:
        `docs/understand/simulation.md`, "The break-even policy". One hit pays for running Redis for `redis_gap_s`. The
        square root is the optimal idle timeout if a start costs a minimum run.
    """
    if hit_value_usd <= 0:
        raise InvalidSettingError(f"hit value {float(hit_value_usd):g} USD: expected an amount above 0")
    worth_usd = hit_value_usd + prices.s3_get_usd
    redis_gap_s = worth_usd / prices.redis_usd_per_s
    least_run_usd = prices.least_s * prices.redis_usd_per_s + prices.run_usd
    boot_requests = 1 + _rounded_log2(1 + least_run_usd / hit_value_usd)
    return BreakevenParameters(
        boot_requests=boot_requests,
        boot_within_us=ALWAYS_US if boot_requests == 1 else int(redis_gap_s * (boot_requests - 1) * US_PER_S / 2),
        redis_idle_us=isqrt(int(2 * least_run_usd / prices.redis_usd_per_s * redis_gap_s * US_PER_S**2)),
        redis_least_us=prices.least_s * US_PER_S,
    )


def redis_stop_us(*, since_us: int, last_us: int, parameters: BreakevenParameters) -> int:
    """Return the time at which Redis, started at `since_us`, stops if its last request comes at `last_us` [us]."""
    return max(since_us + parameters.redis_least_us, last_us + parameters.redis_idle_us)


def _rounded_log2(value: Fraction) -> int:
    """Return log2 of a value >= 1, rounded exactly to the nearest integer. Rational values cannot tie."""
    power = 0
    while value**2 >= 2 ** (2 * power + 1):
        power += 1
    return power
