"""Admission of slices to the pool: a slice enters at its second read, if the pool pays off."""

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
    """Return the longest time between two reads of a slice for which the pool pays [s].

    A read from the pool invokes each holder once. Storage is free, because members are kept alive in any case, and
    evict the coldest chunks. The pool therefore either always or never pays, and the result is infinite or 0.

    Args:
        price: Price of a member.
        redundancy: Code of the slices.
        s3_get_usd: Price of the saved GET [USD].
        hit_value_usd: Value of the saved wait for S3 [USD].
    """
    duration_ms = SERVE_MS + math.ceil(SLICE_BYTES / redundancy.data / BYTES_PER_MS)
    pool_usd = price.invocations_usd(redundancy.chunks, duration_ms)
    return math.inf if pool_usd < s3_get_usd + hit_value_usd else 0.0


class SliceAdmission:
    """Admission of slices by the time since their last request, stored for a bounded number of slices (LRU).

    Each slice has its own history, so only the hot part of a large object enters the pool.

    Args:
        pays_within_s: Longest time between two reads of a slice for which the pool pays, 0 if it never pays [s].
        max_slices: Maximum number of slices with a stored time, at least 1.
    """

    def __init__(self, *, pays_within_s: float, max_slices: int = MAX_SLICES) -> None:
        if not pays_within_s >= 0:
            raise InvalidSettingError(f"pays_within_s={pays_within_s!r}; accepted: 0 or more")
        self._pays_within_s = pays_within_s
        self._max_slices = max_slices
        self._requested_at_s: OrderedDict[bytes, float] = OrderedDict()

    @property
    def ever_pays(self) -> bool:
        """Whether the pool ever pays."""
        return self._pays_within_s > 0

    def admit(self, name: bytes, *, at_s: float) -> bool:
        """Record a request for a slice, and return whether the slice enters the pool.

        Args:
            name: The slice's name.
            at_s: Time of the request on any monotonic clock [s].
        """
        before_s = self._requested_at_s.pop(name, None)
        self._requested_at_s[name] = at_s
        if len(self._requested_at_s) > self._max_slices:
            self._requested_at_s.popitem(last=False)
        return before_s is not None and at_s - before_s < self._pays_within_s
