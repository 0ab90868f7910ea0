"""The fast simulator of many keys that share nodes: the results of `sim.many`, candidate by candidate.

The rules are those of `docs/understand/simulation.md`. Importing this module loads neither numpy nor numba.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, NamedTuple

from burstcache.core.errors import InvalidSettingError
from burstcache.core.parameters import Parameters
from burstcache_sim.engine.values import MAX_TIME_US, checked, empty_spans, result_of, rows_of
from burstcache_sim.traces.trace import Trace
from burstcache_sim.world.many import check_nodes, homes_of
from burstcache_sim.world.result import RunResult
from burstcache_sim.world.run import PolicyParameters
from burstcache_sim.world.timings import THESIS_TIMINGS, Timings

if TYPE_CHECKING:
    from burstcache_sim.engine.books import Integers
    from burstcache_sim.engine.keys import Keys
    from burstcache_sim.engine.shared_replay import Letters


class _Requests(NamedTuple):
    """What `shared_replay.replay_shared` takes of a trace and its nodes, in its order."""

    t: Integers
    key_ids: Keys
    sizes_bytes: Integers
    begins: Integers
    ordered: Integers
    homes: Integers
    node_count: int
    capacity_bytes: int
    horizon_us: int


def run_shared(
    trace: Trace,
    candidates: Sequence[PolicyParameters],
    *,
    nodes: int = 1,
    capacity_bytes: int | None = None,
    until_us: int | None = None,
    timings: Timings = THESIS_TIMINGS,
    details: bool = True,
    workers: int = 1,
) -> list[RunResult]:
    """Replay a trace of many keys that share nodes under each candidate.

    Args:
        trace: The requests. A trace without key ids is one key.
        candidates: Parameters of either policy, mixed as one likes.
        nodes: How many Redis nodes there are.
        capacity_bytes: What a node holds; None: no limit.
        until_us: The horizon; None: until nothing is left to happen [us].
        timings: How long starts and stops take.
        details: Whether the results tell the tier per request and the spans.
        workers: Over so many threads, at least 1; the loops hold no interpreter lock.

    Returns:
        A result per candidate, in their order: what `run_many` gives.

    Raises:
        InvalidSettingError: As in `run_many`, as in `sim.engine.run_fast`, or a key has no name.
    """
    from burstcache_sim.engine import books, shared_replay

    check_nodes(trace, nodes, capacity_bytes)
    if workers < 1:
        raise InvalidSettingError(f"workers {workers}: expected at least 1")
    requests = _requests(trace, nodes, capacity_bytes, until_us)
    n = len(requests.t)
    rows = rows_of(candidates, n, timings)

    def replay(index: int) -> RunResult:
        is_thesis = isinstance(candidates[index], Parameters)
        counts = shared_replay.replay_shared(*requests, rows[index], is_thesis, empty_spans(0), _tiers(0))
        if not details:
            return result_of(n, counts, until_us)
        spans, tiers = empty_spans(int(counts[books.SPANS])), _tiers(n)
        shared_replay.replay_shared(*requests, rows[index], is_thesis, spans, tiers)
        return result_of(n, counts, until_us, spans, tiers.tobytes().decode("ascii"))

    with ThreadPoolExecutor(workers) as threads:
        return list(threads.map(replay, range(len(candidates))))


def _requests(trace: Trace, nodes: int, capacity_bytes: int | None, until_us: int | None) -> _Requests:
    """Return the requests up to the horizon, and once more in the keys' order."""
    import numpy as np

    from burstcache_sim.engine import books, keys

    t, horizon_us = checked(trace.arrivals_us, until_us)
    key_ids = np.zeros(len(t), np.int32) if trace.key_ids is None else trace.key_ids[: len(t)].astype(np.int32)
    homes = np.array(homes_of(trace, nodes), np.int64)
    if len(t) and not 0 <= key_ids.min() <= key_ids.max() < len(homes):
        found = f"key numbers from {key_ids.min()} to {key_ids.max()}"
        raise InvalidSettingError(f"{found}: expected numbers from 0, and a name in `keys` for each ({len(homes)})")
    sizes_bytes, counted_us, counted_ids = np.zeros(0, np.int64), t, key_ids
    if capacity_bytes is not None and trace.sizes_bytes is not None:
        sizes_bytes = trace.sizes_bytes[: len(t)].astype(np.int64)
        fits = sizes_bytes <= capacity_bytes
        counted_us, counted_ids = t[fits], key_ids[fits]
    begins, ordered = keys.order_by_key(counted_us, counted_ids, len(homes))
    limit_bytes = books.FOREVER_US if capacity_bytes is None else min(capacity_bytes, MAX_TIME_US)
    return _Requests(t, key_ids, sizes_bytes, begins, ordered, homes, nodes, limit_bytes, horizon_us)


def _tiers(n: int) -> Letters:
    import numpy as np

    return np.zeros(n, np.uint8)
