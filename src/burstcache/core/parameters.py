"""Parameters of the thesis policy, from the thesis's configurator (appendix A.2) and overrides of single values."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING

from burstcache.core.errors import InvalidSettingError

if TYPE_CHECKING:
    from fractions import Fraction

MAX_SENSITIVITY = 5
QUEUE_LENGTH = 5  # the thesis checks a running Redis by its last five requests (4.2.3)
US_PER_S = 1_000_000
MAX_WINDOW = 100  # maximum number of requests in a key's row, since writes are billed by the row's size


@dataclass(frozen=True, slots=True)
class Parameters:
    """The thresholds at which a key changes its tier. Times in microseconds, above 0 in a live system."""

    tick_us: int  # initial life of a cache function, and its extension by each GET
    lambda_window_elements: int  # this many requests …
    lambda_threshold_us: int  # … in less than this time start a cache function
    redis_threshold: int  # more requests than this since the trigger start Redis
    redis_utilization_us: int  # Redis stops when the last five requests are no longer within this time
    redis_check_us: int = 60 * US_PER_S  # interval of the checks of a running Redis, from its readiness
    keep_running_us: int = 120 * US_PER_S  # extension of the cache function's life by promotion, while Redis boots

    @property
    def window_length(self) -> int:
        """The number of requests in a key's row: enough for the queue of five and for both thresholds."""
        return max(QUEUE_LENGTH, self.lambda_window_elements + 1, self.redis_threshold + 2)


def configure(rate_per_min: Fraction, sensitivity: Fraction, *, least_tick_s: int = 1) -> Parameters:
    """Derive the parameters by the thesis's configurator, with times truncated to whole seconds.

    Args:
        rate_per_min: Expected requests per minute for one key, > 0.
        sensitivity: Value of in-memory service, above 0 and at most 5.
        least_tick_s: Minimum TICK. A simulation may accept 0. Its cache functions then end as soon as they are ready.

    Raises:
        InvalidSettingError: A value is out of range, or TICK would be below `least_tick_s`.

    Source:
        Thesis, appendix A.2, algorithm 1. The threshold is derived from the untruncated TICK, because the truncated
        TICK does not reproduce table 5.1.
    """
    if rate_per_min <= 0:
        raise InvalidSettingError(f"rate {_text(rate_per_min)}: expected a number of requests per minute above 0")
    if not 0 < sensitivity <= MAX_SENSITIVITY:
        raise InvalidSettingError(
            f"sensitivity {_text(sensitivity)}: expected a number above 0 and up to {MAX_SENSITIVITY}"
        )
    gap_s = 60 / rate_per_min
    tick_s = gap_s - (MAX_SENSITIVITY - sensitivity) * gap_s / MAX_SENSITIVITY
    if tick_s < least_tick_s:
        raise InvalidSettingError(
            f"rate {_text(rate_per_min)} with sensitivity {_text(sensitivity)} makes TICK {_text(tick_s)} s; it must be"
            f" at least {least_tick_s} s: use a rate of at most {_text(12 * sensitivity / least_tick_s)}, since a"
            " busier key is in Redis all the time"
        )
    window_elements = 2
    return Parameters(
        tick_us=int(tick_s) * US_PER_S,
        lambda_window_elements=window_elements,
        lambda_threshold_us=int(tick_s * window_elements) * US_PER_S,
        redis_threshold=4,
        redis_utilization_us=int(gap_s * (sensitivity + 5)) * US_PER_S,
    )


def parameters_from_text(*, rate: str, sensitivity: str, overrides: str = "", least_tick_s: int = 1) -> Parameters:
    """Return the configurator's parameters with overrides of single values.

    Args:
        rate: Requests per minute, a decimal that is parsed exactly.
        sensitivity: A decimal above 0 and up to 5.
        overrides: Comma-separated `name=value` pairs; times are in seconds (`tick_s=5`).
        least_tick_s: As for `configure`.

    Raises:
        InvalidSettingError: A value is not accepted.
    """
    parameters = configure(_number("rate", rate), _number("sensitivity", sensitivity), least_tick_s=least_tick_s)
    names = {field.name.replace("_us", "_s"): field.name for field in fields(Parameters)}
    changes = {}
    for item in filter(None, (part.strip() for part in overrides.split(","))):
        name, equals, text = (piece.strip() for piece in item.partition("="))
        if not equals or name not in names:
            raise InvalidSettingError(
                f"policy override {item!r}: expected name=value with a name of {', '.join(names)}"
            )
        changes[names[name]] = _override(name, text)
    return replace(parameters, **changes)


def live_parameters(*, rate: str, sensitivity: str, overrides: str) -> Parameters:
    """Return the parameters of a live system, where a key's row must have room for the policy's window.

    Raises:
        InvalidSettingError: As in `parameters_from_text`, or the window is longer than `MAX_WINDOW`.
    """
    parameters = parameters_from_text(rate=rate, sensitivity=sensitivity, overrides=overrides)
    if parameters.window_length > MAX_WINDOW:
        raise InvalidSettingError(
            f"policy overrides {overrides!r} need the last {parameters.window_length} requests of a key, whose row"
            f" holds {MAX_WINDOW}: expected a lower redis_threshold or lambda_window_elements"
        )
    return parameters


def _override(name: str, text: str) -> int:
    value = _number(name, text)
    if name.endswith("_s"):
        if (value_us := round(value * US_PER_S)) < 1:
            raise InvalidSettingError(f"policy override {name}={text}: expected a time above 0 s")
        return value_us
    least = 2 if name == "lambda_window_elements" else 0
    if value.denominator != 1 or value < least:
        raise InvalidSettingError(f"policy override {name}={text}: expected a whole number of at least {least}")
    return int(value)


def _number(name: str, text: str) -> Fraction:
    from fractions import Fraction  # imported lazily, because readers import this module but need no fractions

    try:
        if "/" in text:
            raise ValueError
        return Fraction(text)
    except ValueError:
        raise InvalidSettingError(f"{name} {text!r}: expected a decimal number such as 9 or 0.5") from None


def _text(value: Fraction) -> str:
    return f"{float(value):g}"
