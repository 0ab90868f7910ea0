"""Replay of the digest's change log at a rate of announcements, by the code that cuts it."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from burstcache.core.change_log import LONGEST_BYTES, MOST_BYTES, NEEDED_S, encode_entry, entries_to_cut
from burstcache.core.digest import MAX_AGE_S, prefix_of
from burstcache.core.keys import key_hash
from burstcache.core.parameters import US_PER_S
from burstcache_sim.scale.items import write_units

_PREFIX = prefix_of(key_hash(""))
_BEGIN_US = 1_767_225_600 * US_PER_S  # some time of day
_ELEMENT_BYTES, _OTHER_BYTES = 1, 60  # of a list's element, and of the item's other columns
_SETTLED_S, _LENGTH_S = 5, 9
_RATES_PER_S = (*range(20, 200, 5), *range(200, 1_001, 20))  # [announcements/s]


@dataclass(frozen=True, slots=True)
class LogReplay:
    """The log at one rate, after it has settled.

    Attributes:
        units_per_s: Write units of appends and cuts.
        covers_s: The shortest time since the oldest entry, just after a cut. The whole replay if the log is never cut.
    """

    units_per_s: float
    covers_s: float


@lru_cache
def replay_log(appends_per_s: float, *, keys_per_append: int = 1) -> LogReplay:
    """Return the log's units and reach at a rate of announcements."""
    log: list[bytes] = []
    times_s: list[float] = []
    units, covers_s, size_bytes = 0, float(_LENGTH_S), _OTHER_BYTES
    for number in range(round(appends_per_s * _LENGTH_S)):
        now_s = number / appends_per_s
        now_us = _BEGIN_US + round(now_s * US_PER_S)
        entry = encode_entry([_PREFIX] * keys_per_append, now_us=now_us)
        log.append(entry)
        times_s.append(now_s)
        size_bytes += len(entry) + _ELEMENT_BYTES
        is_settled = now_s >= _SETTLED_S
        units += write_units(size_bytes) * is_settled
        if cut := entries_to_cut(log, now_us=now_us):
            units += write_units(size_bytes) * is_settled
            size_bytes -= sum(len(each) + _ELEMENT_BYTES for each in log[:cut])
            del log[:cut], times_s[:cut]
            if is_settled:
                covers_s = min(covers_s, now_s - times_s[0])
    return LogReplay(units / (_LENGTH_S - _SETTLED_S), covers_s)


@lru_cache
def most_changes_per_s(*, keys_per_append: int = 1) -> int:
    """Return the highest rate of changes at which the log always reaches back to a reader's last look."""
    return _most(lambda log: log.covers_s >= MAX_AGE_S, keys_per_append)


@lru_cache
def most_written_per_s(units_per_s: int, *, keys_per_append: int = 1) -> int:
    """Return the highest rate of changes that one item takes.

    Args:
        units_per_s: Write units of the item's partition.
        keys_per_append: Changes per announcement.
    """
    return _most(lambda log: log.units_per_s <= units_per_s, keys_per_append)


def log_bytes(changes_per_s: float) -> float:
    """Return the size of the log at a rate of changes, each announced by itself [bytes]."""
    entry_bytes = len(encode_entry([_PREFIX], now_us=_BEGIN_US)) + _ELEMENT_BYTES
    return _OTHER_BYTES + min(LONGEST_BYTES, max(MOST_BYTES, NEEDED_S * changes_per_s * entry_bytes))


def _most(holds: Callable[[LogReplay], bool], keys_per_append: int) -> int:
    """Return the highest of some rates at which the log still holds, by bisection."""
    fine = bisect_left(
        _RATES_PER_S, True, key=lambda rate: not holds(replay_log(rate, keys_per_append=keys_per_append))
    )
    return int(_RATES_PER_S[max(fine - 1, 0)]) * keys_per_append
