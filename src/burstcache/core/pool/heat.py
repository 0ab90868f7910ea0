"""Which slices enter the pool: those that are asked for again while that is still worth their place."""

from __future__ import annotations

import math
from collections import OrderedDict
from fractions import Fraction

from burstcache.core.errors import InvalidSettingError
from burstcache.core.pool.costs import MemberPrice
from burstcache.core.pool.redundancy import BYTES_PER_MS, SERVE_MS
from burstcache.core.pool.slices import SLICE_BYTES, Redundancy

MAX_SLICES = 65_536  # half a terabyte of slices; some 10 MB of names


def pays_within_s(
    price: MemberPrice, redundancy: Redundancy, *, s3_get_usd: Fraction, hit_value_usd: Fraction
) -> float:
    """Return how much time may pass between two reads of a slice for the pool to be worth its price [s].

    A read from the pool is one invocation of each holder. What is stored costs no more the longer it lies: members are
    kept whatever they hold, and drop what is wanted least. So a read pays always or never: infinite or 0.

    Args:
        price: What a member costs.
        redundancy: How slices are coded.
        s3_get_usd: Price of the GET that is saved [USD].
        hit_value_usd: What the saved wait for S3 is worth [USD].
    """
    duration_ms = SERVE_MS + math.ceil(SLICE_BYTES / redundancy.data / BYTES_PER_MS)
    pool_usd = price.invocations_usd(redundancy.chunks, duration_ms)
    return math.inf if pool_usd < s3_get_usd + hit_value_usd else 0.0


class SliceHeat:
    """When slices were last asked for, of a bounded number of them, those forgotten first that nobody asks for.

    The hot part of a large object enters the pool alone: each slice has its own history.

    Args:
        pays_within_s: How much time may pass between two reads of a slice for the pool to be worth its price [s];
            0: it never is.
        max_slices: How many slices are remembered, at least 1.
    """

    def __init__(self, *, pays_within_s: float, max_slices: int = MAX_SLICES) -> None:
        if not pays_within_s >= 0:
            raise InvalidSettingError(f"pays_within_s={pays_within_s!r}; accepted: 0 or more")
        self._pays_within_s = pays_within_s
        self._max_slices = max_slices
        self._asked_at_s: OrderedDict[bytes, float] = OrderedDict()

    @property
    def ever_pays(self) -> bool:
        """Whether the pool is worth its price at all."""
        return self._pays_within_s > 0

    def ask(self, name: bytes, *, at_s: float) -> bool:
        """Note that a slice was asked for, and return whether it belongs into the pool.

        Args:
            name: The slice's name.
            at_s: When, by any clock that does not run back [s].
        """
        before_s = self._asked_at_s.pop(name, None)
        self._asked_at_s[name] = at_s
        if len(self._asked_at_s) > self._max_slices:
            self._asked_at_s.popitem(last=False)
        return before_s is not None and at_s - before_s < self._pays_within_s
