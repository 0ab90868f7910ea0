"""A pool that can be read through, whatever has opened it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from burstcache.core.pool.slices import Redundancy
from burstcache.pool.heartbeat import Seen
from burstcache.pool.reader import PoolReader


@dataclass(frozen=True)
class OpenPool:
    """A pool that members can reach.

    Attributes:
        reader: Reads and writes slices, on the event loop that has opened it.
        redundancies: Returns how slices are coded; the first is that of new ones.
        seen: Counts its requests.
        pays_within_s: As for `SliceHeat` [s].
    """

    reader: PoolReader
    redundancies: Callable[[], Sequence[Redundancy]]
    seen: Seen = field(default_factory=Seen)
    pays_within_s: float = math.inf
