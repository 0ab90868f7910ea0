"""Recency of keys: whether a request repeats an earlier request, and when the table records its key again."""

from __future__ import annotations

from burstcache.core.parameters import US_PER_S

SEEN_WITHIN_US = 24 * 3600 * US_PER_S  # a request is a repeat if its key was seen within this time
SEEN_AGAIN_US = 3600 * US_PER_S  # minimum time between two records of a key, so an hour's requests cost one write
SEEN_AGAIN_AT_BOOT_US = 60 * US_PER_S  # the same during a boot, which loads the most recently read keys


def is_repeat(seen_us: int | None, at_us: int) -> bool:
    """Return whether a request counts for its node. `seen_us` is the time of its key's last record [us], or None."""
    return seen_us is not None and at_us - seen_us < SEEN_WITHIN_US


def should_record(seen_us: int | None, at_us: int, *, is_booting: bool = False) -> bool:
    """Return whether the table should record a key as seen at `at_us`, given its last record at `seen_us`."""
    return seen_us is None or at_us - seen_us >= (SEEN_AGAIN_AT_BOOT_US if is_booting else SEEN_AGAIN_US)
