"""The scenario of a run: requests, nodes, their memory, and the horizon."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from burstcache.core.errors import InvalidSettingError
from burstcache.core.express import ExpressRule
from burstcache.core.keys import key_hash
from burstcache.core.parameters import US_PER_S
from burstcache.core.placement import node_weight
from burstcache_sim.caching import Same
from burstcache_sim.traces.trace import Trace
from burstcache_sim.world.interruptions import Interruptions
from burstcache_sim.world.timings import THESIS_TIMINGS, Timings

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_OUTLASTS_US = 24 * 3_600 * US_PER_S  # nodes that still run so long after the last request are no longer interrupted


@dataclass(frozen=True, slots=True)
class Scenario:
    """All inputs of a run except the policy.

    Raises:
        InvalidSettingError: There is no node or no capacity, there are more always-on nodes than nodes or more slices
            than keys, always-on nodes are interrupted, or the trace lacks the sizes that a capacity or S3 Express
            needs.
    """

    trace: Trace
    nodes: int = 1  # rendezvous hashing assigns each key to a node
    capacity_bytes: int | None = None  # a node's `maxmemory` with LRU eviction (None if unlimited)
    until_us: int | None = None  # the horizon (if None, a run ends after its last event)
    timings: Timings = THESIS_TIMINGS
    always_on: int = 0  # number of nodes that run throughout (the first ones)
    express: ExpressRule | None = None  # decides on copies in S3 Express (None without S3 Express)
    slices: int = 0  # number of slices of large objects among the keys (the last ones)
    interruptions: Interruptions | None = None  # of nodes on Spot

    def __post_init__(self) -> None:
        if self.nodes < 1:
            raise InvalidSettingError(f"nodes {self.nodes}: expected at least 1")
        if not 0 <= self.always_on <= self.nodes:
            raise InvalidSettingError(f"always on {self.always_on}: expected from 0 to {self.nodes}, the nodes")
        if not 0 <= self.slices <= len(self.trace.keys):
            raise InvalidSettingError(f"slices {self.slices}: expected from 0 to {len(self.trace.keys)}, the keys")
        if self.always_on and self.is_interrupted:
            raise InvalidSettingError(f"always on {self.always_on}: expected 0 with interruptions")
        if self.capacity_bytes is not None and self.capacity_bytes < 1:
            raise InvalidSettingError(f"capacity {self.capacity_bytes} bytes: expected at least 1")
        if self.capacity_bytes is not None and self.trace.sizes_bytes is None:
            raise InvalidSettingError(
                f"capacity {self.capacity_bytes} bytes: the trace has no sizes, expected one that has"
            )

        if self.express is not None and self.trace.sizes_bytes is None:
            raise InvalidSettingError("S3 Express: the trace has no sizes, expected one that has")

    @property
    def is_one_key(self) -> bool:
        """Whether the result depends only on the request times of one key."""
        is_plain = self.capacity_bytes is None and self.express is None and not (self.always_on or self.slices)
        return self.trace.key_ids is None and is_plain and not self.is_interrupted

    @property
    def is_interrupted(self) -> bool:
        """Whether nodes may be interrupted."""
        return self.interruptions is not None and self.interruptions.per_h > 0

    def interruptions_at(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the times of the nodes' interruptions in order [us], and the node of each."""
        import numpy as np

        arrivals_us = self.trace.arrivals_us
        if self.interruptions is None or not len(arrivals_us):
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        last_us = int(arrivals_us[-1]) + _OUTLASTS_US if self.until_us is None else self.until_us
        return self.interruptions.times(self.nodes, int(arrivals_us[0]), last_us)

    def check_policy(self, policy: object) -> None:
        """Raise `InvalidSettingError` for slices or interruptions if the policy has no read-through entries."""
        if getattr(policy, "takes_guests", False):
            return
        if self.slices:
            raise InvalidSettingError(
                f"slices {self.slices}: expected 0, since only policies with read-through entries have slices on nodes"
            )
        if self.is_interrupted:
            raise InvalidSettingError("interruptions: expected none, or a policy with read-through entries")

    def homes(self) -> NDArray[np.int64]:
        """Return each key's node, numbered from 0, by rendezvous hashing of its name."""
        return homes_of(("key",) if self.trace.key_ids is None else self.trace.keys, self.nodes)


def homes_of(keys: tuple[str, ...], nodes: int) -> NDArray[np.int64]:
    """Return the node of each key, numbered from 0, by rendezvous hashing of its name (`core.placement`)."""
    import numpy as np

    return np.zeros(len(keys), np.int64) if nodes == 1 else _placement(Same(keys)).among(nodes)


class _Placement:
    """The home nodes of keys for any number of nodes. An added node takes the keys for which its weight is highest."""

    def __init__(self, keys: tuple[str, ...]) -> None:
        import numpy as np

        self._hashes = np.array([key_hash(key) for key in keys], "S32")
        self._highest = self._weights(0)  # the highest weight among the nodes so far
        self._homes = [np.zeros(len(keys), np.int64)]  # indexed by the number of nodes - 1

    def among(self, nodes: int) -> NDArray[np.int64]:
        """Return each key's node. Callers must not modify the array."""
        while len(self._homes) < nodes:
            self._add()
        return self._homes[nodes - 1]

    def _add(self) -> None:
        import numpy as np

        node = len(self._homes)
        weights = self._weights(node)
        moves = weights > self._highest
        self._highest = np.where(moves, weights, self._highest)
        self._homes.append(np.where(moves, node, self._homes[-1]))

    def _weights(self, node: int) -> NDArray[np.bytes_]:
        import numpy as np

        name = f"node-{node + 1}"
        return np.array([node_weight(name, hash_.decode()) for hash_ in self._hashes.tolist()], "S32")


@lru_cache(maxsize=4)  # bills try all numbers of nodes repeatedly
def _placement(keys: Same[tuple[str, ...]]) -> _Placement:
    return _Placement(keys.value)


@lru_cache(maxsize=4)
def numbered_keys(count: int) -> tuple[str, ...]:
    """Return keys named by their numbers."""
    return tuple(map(str, range(count)))
