"""When a key was last asked for: whether a request repeats an earlier one, and when the table notes it anew."""

from __future__ import annotations

from burstcache.core.parameters import US_PER_S

SEEN_WITHIN_US = 24 * 3600 * US_PER_S  # a request for a key that was seen so lately is a repeat
SEEN_AGAIN_US = 3600 * US_PER_S  # when a key was seen is noted again after so long: an hour's requests cost one write
SEEN_AGAIN_AT_BOOT_US = 60 * US_PER_S  # … while its node boots, which loads what has been asked for just now


def is_repeat(seen_us: int | None, at_us: int) -> bool:
    """Whether a request counts for its node: `seen_us` is when its key was last noted as seen [us], None if never."""
    return seen_us is not None and at_us - seen_us < SEEN_WITHIN_US


def notes_seen(seen_us: int | None, at_us: int, *, is_booting: bool = False) -> bool:
    """Whether a key is noted as seen at `at_us`, perhaps while its node boots."""
    return seen_us is None or at_us - seen_us >= (SEEN_AGAIN_AT_BOOT_US if is_booting else SEEN_AGAIN_US)
