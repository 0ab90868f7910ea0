"""The break-even policy: one knob, the worth of a hit. The rate of requests need not be known.

A whole minimum run of Redis costs as much as 13.4 s of a cache function with 1 GB, so a speculative boot is cheap and
bridging with the cache function is dear. Pure decisions; times are integer microseconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import isqrt

from burstcache.core.errors import InvalidSettingError
from burstcache.core.parameters import US_PER_S

ALWAYS_US = 10**17  # longer than any trace: "within" always holds


@dataclass(frozen=True, slots=True)
class BreakevenPrices:
    """The prices that the policy weighs a hit against."""

    lambda_usd_per_s: Fraction = Fraction("1.67e-5")
    redis_usd_per_s: Fraction = Fraction("0.0134") / 3600
    s3_get_usd: Fraction = Fraction("4.3e-7")
    run_usd: Fraction = Fraction(0)  # what a boot and a stop of Redis cost apart from Redis itself
    least_s: int = 60  # how much of Redis is billed at least


THESIS_PRICES = BreakevenPrices()


@dataclass(frozen=True, slots=True)
class BreakevenParameters:
    """When the policy starts and ends things. Times in microseconds."""

    boot_requests: int  # Redis boots when this many requests …
    boot_within_us: int  # … came within less than this
    uses_lambda: bool
    invoke_requests: int  # 1: any request starts a cache function, 2: only one close to its predecessor
    lambda_gap_us: int  # how close; and how long a cache function outlives its last request
    redis_idle_us: int  # how long Redis outlives its last request
    redis_least_us: int = 60 * US_PER_S  # Redis runs at least this long: it is billed anyway
    keep_running_us: int = 120 * US_PER_S  # how long a cache function bridges the boot of Redis


def breakeven(hit_value_usd: Fraction, prices: BreakevenPrices = THESIS_PRICES) -> BreakevenParameters:
    """Return the parameters that follow from the worth of a hit, each time truncated to microseconds.

    Args:
        hit_value_usd: What one request served from memory is worth, > 0 [USD].
        prices: What Lambda, Redis and S3 cost.

    Raises:
        InvalidSettingError: The value is not above 0.

    Source:
        `docs/understand/simulation.md`, "The break-even policy". A stay of Redis or Lambda pays for one hit during its
        gap; the square root is the optimal stay for a start that costs a minimum run.
    """
    if hit_value_usd <= 0:
        raise InvalidSettingError(f"hit value {float(hit_value_usd):g} USD: expected an amount above 0")
    worth_usd = hit_value_usd + prices.s3_get_usd
    redis_gap_s = worth_usd / prices.redis_usd_per_s
    lambda_gap_s = worth_usd / prices.lambda_usd_per_s
    least_run_usd = prices.least_s * prices.redis_usd_per_s + prices.run_usd
    boot_requests = 1 + _rounded_log2(1 + least_run_usd / hit_value_usd)
    return BreakevenParameters(
        boot_requests=boot_requests,
        boot_within_us=ALWAYS_US if boot_requests == 1 else int(redis_gap_s * (boot_requests - 1) * US_PER_S / 2),
        uses_lambda=lambda_gap_s >= Fraction("3.6")
        or Fraction("2.7") * hit_value_usd >= Fraction("0.7") * least_run_usd,
        invoke_requests=1 if boot_requests == 1 else 2,
        lambda_gap_us=int(lambda_gap_s * US_PER_S),
        redis_idle_us=isqrt(int(2 * least_run_usd / prices.redis_usd_per_s * redis_gap_s * US_PER_S**2)),
        redis_least_us=prices.least_s * US_PER_S,
    )


def invokes(times_us: Sequence[int], parameters: BreakevenParameters) -> bool:
    """True if the newest of the times (oldest first) starts a cache function (none lives, and Redis is not booting)."""
    if parameters.invoke_requests == 1:
        return parameters.uses_lambda
    is_close = len(times_us) > 1 and times_us[-1] - times_us[-2] < parameters.lambda_gap_us
    return parameters.uses_lambda and is_close


def boots(times_us: Sequence[int], parameters: BreakevenParameters) -> bool:
    """True if the newest of the times (oldest first) boots a Redis that is off."""
    requests = parameters.boot_requests
    return len(times_us) >= requests and times_us[-1] - times_us[-requests] < parameters.boot_within_us


def redis_stop_us(*, since_us: int, last_us: int, parameters: BreakevenParameters) -> int:
    """Return when a Redis that has run since `since_us` stops if no request follows the one at `last_us` [us]."""
    return max(since_us + parameters.redis_least_us, last_us + parameters.redis_idle_us)


def _rounded_log2(value: Fraction) -> int:
    """Return log2 of a value of at least 1, rounded exactly to a whole number; no value lies half-way."""
    power = 0
    while value**2 >= 2 ** (2 * power + 1):
        power += 1
    return power
