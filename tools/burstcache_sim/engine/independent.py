"""The fast simulator: the readable one's results (`sim.run`), tens of millions of requests a second.

One key in detail, one key under many candidates (tuning), or many keys with nodes of their own; keys that share nodes
are `sim.engine.shared`'s. The policies' loops are compiled at first use and kept in a cache folder (`sim.compiled`);
importing this module loads neither numpy nor numba.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from burstcache.core.errors import InvalidSettingError
from burstcache.core.parameters import Parameters
from burstcache_sim.engine.values import checked, empty_spans, flags_of, result_of, rows_of, summed, tiers_of
from burstcache_sim.traces.trace import Trace
from burstcache_sim.world.result import RunResult
from burstcache_sim.world.run import PolicyParameters
from burstcache_sim.world.timings import THESIS_TIMINGS, Timings

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from burstcache_sim.engine.books import Integers


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
    from burstcache_sim.engine import books, keys

    t, horizon_us = checked(arrivals_us, until_us)
    rows = rows_of([parameters], len(t), timings)
    flags = flags_of([parameters])
    counts = keys.replay_candidates(t, horizon_us, rows, flags, empty_spans(0))[0]
    if not details:
        return result_of(len(t), counts, until_us)
    spans = empty_spans(int(counts[books.SPANS]))
    keys.replay_candidates(t, horizon_us, rows, flags, spans)
    return result_of(len(t), counts, until_us, spans, tiers_of(len(t), spans))


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
    from burstcache_sim.engine import keys

    t, horizon_us = checked(arrivals_us, until_us)
    rows, flags, nothing = rows_of(candidates, len(t), timings), flags_of(candidates), empty_spans(0)

    def replay(worker: int) -> Integers:
        mine = slice(worker, None, workers)
        return keys.replay_candidates(t, horizon_us, rows[mine].copy(), flags[mine].copy(), nothing)

    with ThreadPoolExecutor(workers) as threads:
        parts = list(threads.map(replay, range(workers)))
    return [result_of(len(t), parts[i % workers][i // workers], until_us) for i in range(len(candidates))]


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

    from burstcache_sim.engine import keys

    t, horizon_us = checked(trace.arrivals_us, until_us)
    key_ids = np.zeros(len(t), np.int32) if trace.key_ids is None else trace.key_ids[: len(t)].astype(np.int32)
    if len(t) and key_ids.min() < 0:
        raise InvalidSettingError(f"key number {key_ids.min()}: expected numbers from 0")
    key_count = max(len(trace.keys), int(key_ids.max(initial=-1)) + 1)
    begins, ordered = keys.order_by_key(t, key_ids, key_count)
    rows, is_thesis = rows_of([parameters], len(t), timings), isinstance(parameters, Parameters)
    counts = keys.replay_keys(begins, ordered, horizon_us, rows[0], is_thesis, empty_spans(0))
    total = result_of(len(t), summed(counts), until_us)
    sizes = np.diff(begins)
    each = tuple(result_of(int(n), row, until_us) for n, row in zip(sizes, counts, strict=True)) if per_key else ()
    return KeysResult(total, each)
