"""What a policy meets: requests, nodes and their memory, the duration of a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from burstcache.core.errors import InvalidSettingError
from burstcache.core.express import ExpressRule
from burstcache.core.keys import key_hash
from burstcache.core.placement import node_for
from burstcache_sim.traces.trace import Trace
from burstcache_sim.world.timings import THESIS_TIMINGS, Timings


@dataclass(frozen=True, slots=True)
class Scenario:
    """Everything that decides a run's result apart from the policy.

    Raises:
        InvalidSettingError: There is no node, no capacity, more nodes that are always on than nodes; a capacity or S3
            Express without the objects' sizes.
    """

    trace: Trace
    nodes: int = 1  # a key belongs to one of them by rendezvous hashing
    capacity_bytes: int | None = None  # of a node (`maxmemory`); the least recently used object leaves first
    until_us: int | None = None  # the horizon; None: a run ends when nothing is left to happen
    timings: Timings = THESIS_TIMINGS
    always_on: int = 0  # this many nodes, the first ones, run from the beginning to the end
    express: ExpressRule | None = None  # when objects are copied to S3 Express; None: there is none

    def __post_init__(self) -> None:
        if self.nodes < 1:
            raise InvalidSettingError(f"nodes {self.nodes}: expected at least 1")
        if not 0 <= self.always_on <= self.nodes:
            raise InvalidSettingError(f"always on {self.always_on}: expected from 0 to {self.nodes}, the nodes")
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
        """Whether nothing matters but when one key is asked for."""
        is_plain = self.capacity_bytes is None and self.express is None and not self.always_on
        return self.trace.key_ids is None and is_plain

    def homes(self) -> list[int]:
        """Return each key's node, numbered from 0, by rendezvous hashing of its name."""
        return homes_of(("key",) if self.trace.key_ids is None else self.trace.keys, self.nodes)


def homes_of(keys: Sequence[str], nodes: int) -> list[int]:
    """Return the node of each key, numbered from 0, by rendezvous hashing of its name."""
    if nodes == 1:
        return [0] * len(keys)
    names = [f"node-{number}" for number in range(1, nodes + 1)]
    numbers = {name: number for number, name in enumerate(names)}
    return [numbers[node_for(key_hash(key), names)] for key in keys]
