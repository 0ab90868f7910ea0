"""Losses of an always-on cache on Spot: reads that miss because AWS interrupted the node since the object was read.

An LRU cache that was emptied holds what was read since then and fits. So a read that would be a hit stays one unless
an interruption, or the boot that follows it, came after the object's previous read. Each hit is lost with the chance of
that, by a draw of its own. Few interruptions a month would otherwise decide by their hours.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from burstcache.core.node_kinds import node_kind
from burstcache_sim.units import US_PER_H
from burstcache_sim.world.interruptions import Interruptions
from burstcache_sim.world.timings import node_timings

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from burstcache_sim.bill.setup import Setup


@dataclass(frozen=True, slots=True)
class CacheLosses:
    """The interruptions of always-on nodes, each of which replaces a node by an empty one."""

    interruptions: Interruptions
    boot_us: int  # time for which the node is away

    def lost(self, ids: NDArray[np.int64], times_us: NDArray[np.int64], enter: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return the mask of reads that an interruption turns into misses, over two repetitions.

        The second repetition stands for all further ones. An object's first read is never lost, since it misses anyway.

        Args:
            ids: Object of each read, over two repetitions.
            times_us: Time of each read [us].
            enter: Mask of the reads that the nodes receive.
        """
        import numpy as np

        gaps_us = np.full(len(ids), -1, np.int64)
        gaps_us[enter] = _gaps_us(ids[enter], times_us[enter])
        chances = -np.expm1(-float(self.interruptions.per_h) / US_PER_H * (gaps_us + self.boot_us))
        drawn = np.random.default_rng(self.interruptions.seed).random(len(ids) // 2)
        is_lost: NDArray[np.bool_] = (gaps_us >= 0) & (np.concatenate((drawn, drawn)) < chances)
        return is_lost


def losses_of(setup: Setup, name: str) -> CacheLosses | None:
    """Return the losses of an always-on node, or None if AWS does not interrupt it.

    Args:
        setup: The rate and the seed of interruptions, and the durations of boots.
        name: The node (`core.node_kinds`).
    """
    kind = node_kind(name)
    if kind != "fargate-spot" or not setup.interruptions_per_h:
        return None
    interruptions = Interruptions(setup.interruptions_per_h, setup.interruption_seed)
    return CacheLosses(interruptions, node_timings(kind, setup.node_times).redis_boot_us)


def _gaps_us(ids: NDArray[np.int64], times_us: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the time since the previous read of each read's object, -1 for first reads [us]."""
    import numpy as np

    order = np.argsort(ids, kind="stable")
    gaps_us = np.full(len(ids), -1, np.int64)
    is_again = ids[order[1:]] == ids[order[:-1]]
    gaps_us[order[1:][is_again]] = (times_us[order[1:]] - times_us[order[:-1]])[is_again]
    return gaps_us
