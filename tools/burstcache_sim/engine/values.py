"""From policies to the compiled engines' arrays, and from their counts to results; numpy is loaded at first use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from burstcache.core.errors import InvalidSettingError
from burstcache_sim.world.result import RunResult, Tier
from burstcache_sim.world.timings import Timings

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from burstcache_sim.engine.books import Integers

MAX_TIME_US = 10**18  # 31,000 years: sums of a few such times still fit 64 bits
_TIERS: tuple[Tier, ...] = ("L", "R")


def checked(arrivals_us: NDArray[np.int64], until_us: int | None) -> tuple[Integers, int]:
    """Return the arrivals up to the horizon, and the horizon [us]."""
    import numpy as np

    from burstcache_sim.engine.books import FOREVER_US

    t = np.ascontiguousarray(arrivals_us, dtype=np.int64)
    if len(t) and (t[0] < 0 or t[-1] > MAX_TIME_US):
        raise InvalidSettingError(f"arrivals from {t[0]} to {t[-1]} us: expected times from 0 to {MAX_TIME_US} us")
    if np.any(t[1:] < t[:-1]):
        raise InvalidSettingError(f"arrival {int(np.argmax(t[1:] < t[:-1])) + 2} precedes the one before it: sort them")
    if until_us is None:
        return t, FOREVER_US
    if not 0 <= until_us <= MAX_TIME_US:
        raise InvalidSettingError(f"horizon {until_us} us: expected a time from 0 to {MAX_TIME_US} us")
    return t[: np.searchsorted(t, until_us, side="right")], until_us


def rows_of(candidates: Sequence[NamedTuple], n: int, timings: Timings) -> Integers:
    """Return the candidates as rows of integers (`engine.books` names the places)."""
    import numpy as np

    from burstcache_sim.engine.books import PARAMETERS

    rows = np.zeros((len(candidates), PARAMETERS), np.int64)
    for row, setting in zip(rows, candidates, strict=True):
        values = [*astuple(timings), *setting]
        for value in values:
            if not 0 <= value <= MAX_TIME_US:
                raise InvalidSettingError(f"{setting} and {timings}: expected values from 0 to {MAX_TIME_US}")
        if getattr(setting, "tick_us", 0) * n > MAX_TIME_US:
            raise InvalidSettingError(f"{setting} and {n} requests: expected a sum of at most {MAX_TIME_US} us")
        if getattr(setting, "check_us", 1) < 1:
            raise InvalidSettingError(f"{setting}: expected a check above 0 us")
        row[: len(values)] = values
    return rows


def empty_spans(rows: int) -> Integers:
    """Return room for so many spans; none: no span is noted."""
    import numpy as np

    from burstcache_sim.engine.books import SPAN_COLUMNS

    return np.zeros((rows, SPAN_COLUMNS), np.int64)


def result_of(
    n: int, counts: Integers, until_us: int | None, spans: Integers | None = None, tiers: str = ""
) -> RunResult:
    """Return counts, and spans where they were noted, as a result."""
    from burstcache_sim.engine.books import CHECKS, SEEDS

    c = counts.tolist()  # in the order of its places
    n_lambda, n_redis, lambda_ms, invocations, cold_starts, redis_s, redis_starts, lambda_us, redis_us, end_us = c[:10]
    n_s3 = n - n_lambda - n_redis
    rows = [] if spans is None else spans.tolist()
    return RunResult(
        n=n,
        n_s3=n_s3,
        n_lambda=n_lambda,
        n_redis=n_redis,
        lambda_ms=lambda_ms,
        invocations=invocations,
        cold_starts=cold_starts,
        redis_s=redis_s,
        redis_starts=redis_starts,
        s3_requests=n_s3 + cold_starts + c[SEEDS],
        lambda_us_exact=lambda_us,
        redis_us_exact=redis_us,
        end_us=end_us if until_us is None else until_us,
        checks=c[CHECKS],
        tiers=tiers,
        lambda_spans_us=tuple((row[3], row[4]) for row in rows if row[0] == 0),
        redis_spans_us=tuple((row[3], row[4]) for row in rows if row[0] == 1),
    )


def tiers_of(n: int, spans: Integers) -> str:
    """Return the tier per request of one key: S3 serves what no span does."""
    pieces = []
    served = 0
    for who, first, after, _, _ in spans.tolist():
        if after > first:
            pieces += ["S" * (first - served), _TIERS[who] * (after - first)]
            served = after
    return "".join(chain(pieces, ["S" * (n - served)]))
