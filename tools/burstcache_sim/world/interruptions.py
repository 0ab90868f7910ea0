"""Interruptions of nodes on Spot: random times at which AWS takes a node away.

No figures of Fargate Spot's interruptions are published, so the usual rate is an assumption.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from burstcache.core.errors import InvalidSettingError
from burstcache.core.parameters import US_PER_S

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

ASSUMED_PER_H = Fraction(1, 100)  # about seven a month for a node that is always on
MAX_PER_H = 60
_US_PER_H = 3_600 * US_PER_S
_BLOCK = 256  # random numbers drawn at once


@dataclass(frozen=True, slots=True)
class Interruptions:
    """Poisson processes of interruptions, one per node. The times at a lower rate are a subset of those at a higher.

    Raises:
        InvalidSettingError: The rate is negative or above `MAX_PER_H`, or the seed is negative.
    """

    per_h: Fraction | int
    seed: int = 1

    def __post_init__(self) -> None:
        if not 0 <= self.per_h <= MAX_PER_H:
            raise InvalidSettingError(f"interruptions {float(self.per_h):g} an hour: expected from 0 to {MAX_PER_H}")
        if self.seed < 0:
            raise InvalidSettingError(f"seed of interruptions {self.seed}: expected at least 0")

    def times(self, nodes: int, first_us: int, last_us: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the times of all interruptions in order [us], and the node of each.

        Args:
            nodes: Number of nodes.
            first_us: Start of the processes [us].
            last_us: The latest time of interest [us].
        """
        import numpy as np

        of_nodes = [self._node_times_us(node, last_us - first_us) for node in range(nodes)]
        times_us = first_us + np.concatenate(of_nodes)
        numbers = np.repeat(np.arange(nodes), [len(times_us) for times_us in of_nodes])
        order = np.argsort(times_us, kind="stable")
        return times_us[order], numbers[order]

    def _node_times_us(self, node: int, span_us: int) -> NDArray[np.int64]:
        """Return a node's interruptions as offsets: the points of layers of rate 1 whose mark is below the rate."""
        import numpy as np

        times_us = [np.zeros(0, np.int64)]
        for layer in range(-(-self.per_h // 1)):
            random, end_h = np.random.default_rng([self.seed, node, layer]), 0.0
            while end_h * _US_PER_H <= span_us:
                times_h, marks = end_h + random.exponential(size=_BLOCK).cumsum(), random.random(_BLOCK)
                end_h = float(times_h[-1])
                layer_us = (times_h * _US_PER_H).astype(np.int64)
                times_us.append(layer_us[(layer + marks < float(self.per_h)) & (layer_us <= span_us)])
        return np.concatenate(times_us)
