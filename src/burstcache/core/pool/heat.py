"""Which slices enter the pool: those that are asked for again while that is still worth their place."""

from __future__ import annotations

from collections import OrderedDict

from burstcache.core.errors import InvalidSettingError

MAX_SLICES = 65_536  # half a terabyte of slices; some 10 MB of names


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
