"""An open pool, ready for reads."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from burstcache.core.pool.slices import Redundancy
from burstcache.pool.heartbeat import HubCounters
from burstcache.pool.reader import PoolReader


@dataclass(frozen=True)
class OpenPool:
    """A pool whose members are reachable.

    Attributes:
        reader: Reads and writes slices, on the event loop that opened the pool.
        redundancies: Returns the erasure codes of slices, starting with the code of new slices.
        counters: Counts the pool's requests.
        pays_within_s: See `SliceAdmission` [s].
    """

    reader: PoolReader
    redundancies: Callable[[], Sequence[Redundancy]]
    counters: HubCounters = field(default_factory=HubCounters)
    pays_within_s: float = math.inf
