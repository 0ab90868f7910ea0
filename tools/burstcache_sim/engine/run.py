"""The compiled simulator: the readable one's results, tens of millions of requests a second.

One key runs through a loop of its policy's own, keys that share nodes through one engine for all policies. The code is
compiled at first use and kept in a cache folder (`engine.compiled`); importing this module loads neither numpy nor
numba.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, NamedTuple

from burstcache.core.errors import InvalidSettingError
from burstcache_sim.engine.values import MAX_TIME_US, checked, empty_spans, result_of, rows_of, tiers_of
from burstcache_sim.policies.policy import Policy
from burstcache_sim.policies.thesis import ThesisRow
from burstcache_sim.world.result import RunResult
from burstcache_sim.world.scenario import Scenario

if TYPE_CHECKING:
    from collections.abc import Callable

    from burstcache_sim.engine.books import Integers
    from burstcache_sim.engine.keys import Keys
    from burstcache_sim.engine.shared_replay import Letters


class _Requests(NamedTuple):
    """What `shared_replay.replay_shared` takes of a scenario, in its order."""

    t: Integers
    key_ids: Keys
    sizes_bytes: Integers
    begins: Integers
    ordered: Integers
    homes: Integers
    node_count: int
    capacity_bytes: int
    horizon_us: int


def run_compiled(
    policies: Sequence[Policy], scenario: Scenario, *, details: bool = True, workers: int = 1
) -> list[RunResult]:
    """Replay a scenario's requests under each of the policies, all of which have compiled engines.

    Args:
        policies: In any mixture.
        scenario: What they meet: times from 0 to 1e18 us, a name for each key.
        details: Whether the results have the tier per request and the spans. They have no log.
        workers: Threads, at least 1; the loops hold no interpreter lock.

    Returns:
        A result per policy, in their order: what `world.simulate` gives.

    Raises:
        InvalidSettingError: The arrivals are unsorted, a time is too large for 64-bit sums, a key has no name.
    """
    if workers < 1:
        raise InvalidSettingError(f"workers {workers}: expected at least 1")
    settings = [_compiled(policy) for policy in policies]
    replay = _one_key(settings, scenario) if scenario.is_one_key else _shared(settings, scenario)
    with ThreadPoolExecutor(workers) as threads:
        return list(threads.map(lambda index: replay(index, details), range(len(policies))))


def _compiled(policy: Policy) -> NamedTuple:
    setting = policy.compiled()
    assert setting is not None, f"{policy.name} has no compiled engine"
    return setting


def _one_key(settings: Sequence[NamedTuple], scenario: Scenario) -> Callable[[int, bool], RunResult]:
    from burstcache_sim.engine import books, keys

    t, horizon_us = checked(scenario.trace.arrivals_us, scenario.until_us)
    rows, n, until_us, none = rows_of(settings, len(t), scenario.timings), len(t), scenario.until_us, empty_spans(0)

    def replay(index: int, details: bool) -> RunResult:
        is_thesis = isinstance(settings[index], ThesisRow)
        counts = keys.replay_candidate(t, horizon_us, rows[index], is_thesis, none)
        if not details:
            return result_of(n, counts, until_us)
        spans = empty_spans(int(counts[books.SPANS]))
        keys.replay_candidate(t, horizon_us, rows[index], is_thesis, spans)
        return result_of(n, counts, until_us, spans, tiers_of(n, spans))

    return replay


def _shared(settings: Sequence[NamedTuple], scenario: Scenario) -> Callable[[int, bool], RunResult]:
    from burstcache_sim.engine import books, shared_replay

    requests = _requests(scenario)
    n, until_us, none = len(requests.t), scenario.until_us, empty_spans(0)
    rows = rows_of(settings, n, scenario.timings)

    def replay(index: int, details: bool) -> RunResult:
        is_thesis = isinstance(settings[index], ThesisRow)
        counts = shared_replay.replay_shared(*requests, rows[index], is_thesis, none, _tiers(0))
        if not details:
            return result_of(n, counts, until_us)
        spans, tiers = empty_spans(int(counts[books.SPANS])), _tiers(n)
        shared_replay.replay_shared(*requests, rows[index], is_thesis, spans, tiers)
        return result_of(n, counts, until_us, spans, tiers.tobytes().decode("ascii"))

    return replay


def _requests(scenario: Scenario) -> _Requests:
    """Return the requests up to the horizon, and once more in the keys' order."""
    import numpy as np

    from burstcache_sim.engine import books, keys

    trace, capacity_bytes = scenario.trace, scenario.capacity_bytes
    t, horizon_us = checked(trace.arrivals_us, scenario.until_us)
    key_ids = np.zeros(len(t), np.int32) if trace.key_ids is None else trace.key_ids[: len(t)].astype(np.int32)
    homes = np.array(scenario.homes(), np.int64)
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
    return _Requests(t, key_ids, sizes_bytes, begins, ordered, homes, scenario.nodes, limit_bytes, horizon_us)


def _tiers(n: int) -> Letters:
    import numpy as np

    return np.zeros(n, np.uint8)
