"""The change log of the digest: the keys that were written or deleted, oldest first.

Each entry has the keys of one announcement, which may be a whole batch, and its time. The log stores the first 48 bits
of a key's hash.
"""

from __future__ import annotations

from collections.abc import Sequence

from burstcache.core.parameters import US_PER_S

PREFIX_BYTES = 6
_TIME_BYTES, _TICK_US = 5, 10_000
_ELEMENT_BYTES = 1  # DynamoDB's own byte for each element of a list

# While few keys change, the log's item stays within 1 KB (one write unit).
MOST_BYTES = 896
KEPT_BYTES = 448
NEEDED_S = 4  # a reader's digest is at most 2 s old, DynamoDB may show it a second late, and clocks differ
# Every append writes the whole item. One item takes 1,000 units a second, of which the log takes half at most.
LONGEST_BYTES = 8 << 10
_UNITS_PER_S = 500
_UNIT_BYTES = 1 << 10
_TOO_LONG = 1.25  # of the limit: a cut is a write of its own
_MIN_CUT_SHARE = 0.25
_MOST_CUT = 250  # entries; an update expression has at most 300 operands


def encode_entry(prefixes: Sequence[str], *, now_us: int) -> bytes:
    """Return an entry: the time in hundredths of a second, and the hash prefixes."""
    return (now_us // _TICK_US).to_bytes(_TIME_BYTES) + b"".join(map(bytes.fromhex, prefixes))


def changes_in(log: Sequence[bytes]) -> list[str]:
    """Return the hash prefixes in a log, oldest first."""
    return [entry[at : at + PREFIX_BYTES].hex() for entry in log for at in range(_TIME_BYTES, len(entry), PREFIX_BYTES)]


def entries_to_cut(log: Sequence[bytes], *, now_us: int) -> int:
    """Return the number of entries to remove from the front of a log, 0 if a cut is not worth its write.

    Entries that no reader needs are removed once the log exceeds 1 KB. Younger ones are removed, too, if so long a log
    cannot be written that often.
    """
    sizes_bytes = [len(entry) + _ELEMENT_BYTES for entry in log]
    total_bytes = sum(sizes_bytes)
    if total_bytes <= MOST_BYTES:
        return 0
    now_s, times_s = now_us / US_PER_S, [_time_s(entry) for entry in log]
    entries_per_s = len(log) / max(0.1, max(now_s, *times_s) - times_s[0])
    limit_bytes = max(MOST_BYTES, min(LONGEST_BYTES, _UNITS_PER_S * _UNIT_BYTES / entries_per_s))
    is_too_long = total_bytes > _TOO_LONG * limit_bytes
    cut, rest_bytes = 0, total_bytes
    while cut < min(_MOST_CUT, len(log)):
        is_needed = rest_bytes <= KEPT_BYTES or times_s[cut] > now_s - NEEDED_S
        if is_needed and not (is_too_long and rest_bytes > limit_bytes):
            break
        rest_bytes -= sizes_bytes[cut]
        cut += 1
    is_worth_it = is_too_long or cut == _MOST_CUT or total_bytes - rest_bytes >= _MIN_CUT_SHARE * total_bytes
    return cut if is_worth_it else 0


def _time_s(entry: bytes) -> float:
    return int.from_bytes(entry[:_TIME_BYTES]) * _TICK_US / US_PER_S
