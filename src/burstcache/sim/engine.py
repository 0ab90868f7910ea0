"""The fast simulator: the readable one's results (`sim.run`), tens of millions of requests a second.

One key in detail, one key under many candidates (tuning), or many keys with nodes of their own. The policies' loops are
compiled at first use and kept in a cache folder (`sim.compiled`); importing this module loads neither numpy nor numba.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import astuple, dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

from burstcache.core.breakeven import BreakevenParameters
from burstcache.core.parameters import Parameters
from burstcache.errors import InvalidSettingError
from burstcache.sim.result import RunResult, Tier
from burstcache.sim.timings import THESIS_TIMINGS, Timings
from burstcache.sim.trace import Trace

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from burstcache.sim.engine_books import Integers

PolicyParameters = Parameters | BreakevenParameters

MAX_TIME_US = 10**18  # 31,000 years: sums of a few such times still fit 64 bits
_TIERS: tuple[Tier, ...] = ("L", "R")


@dataclass(frozen=True, slots=True)
class KeysResult:
    """Many keys with nodes of their own: the sum, and what each key took."""

    total: RunResult
    per_key: tuple[RunResult, ...]


def run_fast(
    arrivals_us: Sequence[int] | NDArray[np.int64],
    parameters: PolicyParameters,
    *,
    until_us: int | None = None,
    timings: Timings = THESIS_TIMINGS,
    details: bool = True,
) -> RunResult:
    """Replay a trace of one key.

    Args:
        arrivals_us: When the requests come, sorted, doubles allowed, at least 0 and at most 1e18 [us].
        parameters: The policy and its parameters.
        until_us: The horizon as in `sim.run`; None: until nothing is left to happen [us].
        timings: How long starts and stops take.
        details: Whether the result tells the tier per request and the spans. Its log is empty in either case.

    Raises:
        InvalidSettingError: The arrivals are unsorted, or a time is too large for 64-bit sums.
    """
    from burstcache.sim import engine_keys

    t, horizon_us = _checked(arrivals_us, until_us)
    rows = _rows([parameters], len(t), timings)
    flags = _flags([parameters])
    counts = engine_keys.replay_candidates(t, horizon_us, rows, flags, _spans(0))[0]
    if not details:
        return _result(len(t), counts, until_us)
    spans = _spans(int(counts[-1]))
    engine_keys.replay_candidates(t, horizon_us, rows, flags, spans)
    return _result(len(t), counts, until_us, spans)


def run_many_parameters(
    arrivals_us: Sequence[int] | NDArray[np.int64],
    candidates: Sequence[PolicyParameters],
    *,
    until_us: int | None = None,
    timings: Timings = THESIS_TIMINGS,
    workers: int = 1,
) -> list[RunResult]:
    """Replay a trace of one key under each candidate, without details.

    Args:
        arrivals_us: As in `run_fast` [us].
        candidates: Parameters of either policy, mixed as one likes.
        until_us: The horizon; None: until nothing is left to happen [us].
        timings: How long starts and stops take.
        workers: Over so many threads, at least 1; the loops hold no interpreter lock.

    Raises:
        InvalidSettingError: As in `run_fast`.
    """
    from burstcache.sim import engine_keys

    t, horizon_us = _checked(arrivals_us, until_us)
    rows, flags, nothing = _rows(candidates, len(t), timings), _flags(candidates), _spans(0)

    def replay(worker: int) -> Integers:
        mine = slice(worker, None, workers)
        return engine_keys.replay_candidates(t, horizon_us, rows[mine].copy(), flags[mine].copy(), nothing)

    with ThreadPoolExecutor(workers) as threads:
        parts = list(threads.map(replay, range(workers)))
    return [_result(len(t), parts[i % workers][i // workers], until_us) for i in range(len(candidates))]


def run_keys(
    trace: Trace,
    parameters: PolicyParameters,
    *,
    until_us: int | None = None,
    timings: Timings = THESIS_TIMINGS,
    per_key: bool = False,
) -> KeysResult:
    """Replay a trace of many keys, each with a cache function and a node of its own.

    Args:
        trace: With `key_ids`; a trace without them has one key.
        parameters: The policy and its parameters, the same for all keys.
        until_us: The horizon; None: until nothing is left to happen [us].
        timings: How long starts and stops take.
        per_key: Whether to tell every key's counts too; else `per_key` is empty.

    Raises:
        InvalidSettingError: As in `run_fast`, or a key's number is below 0.
    """
    import numpy as np

    from burstcache.sim import engine_keys

    t, horizon_us = _checked(trace.arrivals_us, until_us)
    key_ids = np.zeros(len(t), np.int32) if trace.key_ids is None else trace.key_ids[: len(t)].astype(np.int32)
    if len(t) and key_ids.min() < 0:
        raise InvalidSettingError(f"key number {key_ids.min()}: expected numbers from 0")
    key_count = max(len(trace.keys), int(key_ids.max(initial=-1)) + 1)
    begins, ordered = engine_keys.order_by_key(t, key_ids, key_count)
    rows, is_thesis = _rows([parameters], len(t), timings), isinstance(parameters, Parameters)
    counts = engine_keys.replay_keys(begins, ordered, horizon_us, rows[0], is_thesis, _spans(0))
    total = _result(len(t), _sum(counts), until_us)
    sizes = np.diff(begins)
    each = tuple(_result(int(n), row, until_us) for n, row in zip(sizes, counts, strict=True)) if per_key else ()
    return KeysResult(total, each)


def _checked(arrivals_us: Sequence[int] | NDArray[np.int64], until_us: int | None) -> tuple[Integers, int]:
    """Return the arrivals up to the horizon, and the horizon [us]."""
    import numpy as np

    from burstcache.sim.engine_books import FOREVER_US

    try:
        t = np.ascontiguousarray(arrivals_us, dtype=np.int64)
    except OverflowError:
        raise InvalidSettingError(f"an arrival exceeds 64 bits: expected times of at most {MAX_TIME_US} us") from None
    if len(t) and (t[0] < 0 or t[-1] > MAX_TIME_US):
        raise InvalidSettingError(f"arrivals from {t[0]} to {t[-1]} us: expected times from 0 to {MAX_TIME_US} us")
    if np.any(t[1:] < t[:-1]):
        raise InvalidSettingError(f"arrival {int(np.argmax(t[1:] < t[:-1])) + 2} precedes the one before it: sort them")
    if until_us is None:
        return t, FOREVER_US
    if not 0 <= until_us <= MAX_TIME_US:
        raise InvalidSettingError(f"horizon {until_us} us: expected a time from 0 to {MAX_TIME_US} us")
    return t[: np.searchsorted(t, until_us, side="right")], until_us


def _rows(candidates: Sequence[PolicyParameters], n: int, timings: Timings) -> Integers:
    """Return the candidates as rows of integers (`engine_books` names the places)."""
    import numpy as np

    from burstcache.sim.engine_books import PARAMETERS

    rows = np.zeros((len(candidates), PARAMETERS), np.int64)
    for row, parameters in zip(rows, candidates, strict=True):
        values = [*astuple(timings), parameters.keep_running_us, *_own(parameters)]
        for value in values:
            if not 0 <= value <= MAX_TIME_US:
                raise InvalidSettingError(f"{parameters} and {timings}: expected values from 0 to {MAX_TIME_US}")
        if isinstance(parameters, Parameters) and parameters.tick_us * n > MAX_TIME_US:
            raise InvalidSettingError(
                f"tick_us {parameters.tick_us} added by {n} requests: expected a sum of at most {MAX_TIME_US} us"
            )
        if isinstance(parameters, Parameters) and parameters.redis_check_us < 1:
            raise InvalidSettingError(f"redis_check_us {parameters.redis_check_us}: expected a time above 0 us")
        row[: len(values)] = values
    return rows


def _own(p: PolicyParameters) -> list[int]:
    """Return what only the one policy has, in the order of its places."""
    if isinstance(p, BreakevenParameters):
        boot = [p.boot_requests, p.boot_within_us, int(p.uses_lambda), p.invoke_requests]
        return [*boot, p.lambda_gap_us, p.redis_idle_us, p.redis_least_us]
    start = [p.tick_us, p.lambda_window_elements, p.lambda_threshold_us]
    return [*start, p.redis_threshold, p.redis_utilization_us, p.redis_check_us]


def _flags(candidates: Sequence[PolicyParameters]) -> Any:
    import numpy as np

    return np.array([isinstance(parameters, Parameters) for parameters in candidates], np.bool_)


def _spans(rows: int) -> Integers:
    import numpy as np

    from burstcache.sim.engine_books import SPAN_COLUMNS

    return np.zeros((rows, SPAN_COLUMNS), np.int64)


def _sum(counts: Integers) -> Integers:
    from burstcache.sim.engine_books import END_US

    total: Integers = counts.sum(axis=0)
    total[END_US] = counts[:, END_US].max(initial=0)
    return total


def _result(n: int, counts: Integers, until_us: int | None, spans: Integers | None = None) -> RunResult:
    c = counts.tolist()  # in the order of the places in `engine_books`
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
        s3_requests=n_s3 + cold_starts + redis_starts,
        lambda_us_exact=lambda_us,
        redis_us_exact=redis_us,
        end_us=end_us if until_us is None else until_us,
        checks=c[10],
        tiers="" if spans is None else _tiers(n, rows),
        lambda_spans_us=tuple((row[3], row[4]) for row in rows if row[0] == 0),
        redis_spans_us=tuple((row[3], row[4]) for row in rows if row[0] == 1),
    )


def _tiers(n: int, rows: list[list[int]]) -> str:
    """Return the tier per request: S3 serves what no span does."""
    pieces = []
    served = 0
    for who, first, after, _, _ in rows:
        if after > first:
            pieces += ["S" * (first - served), _TIERS[who] * (after - first)]
            served = after
    return "".join(chain(pieces, ["S" * (n - served)]))
