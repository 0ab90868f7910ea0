"""The backlog of S3's events: since when the oldest one waits in the queue, as readers learn from the digest.

An event waits while others are before it in the queue, or while both executions of the origin function are busy with
parts that do not answer. The queue has no cheap answer to how long its oldest message waits. So each batch says what it
knows, at its end and once it takes long.
"""

from __future__ import annotations

from dataclasses import dataclass

from burstcache.core.parameters import US_PER_S

LATE_S = 0.5  # readers learn of a wait at most 2 s later, and then use S3
_LATE_US = round(LATE_S * US_PER_S)
MANY = 5  # fewer events may wait as long for a cold start, with nothing behind them
KEPT_S = 30  # a backlog that nobody confirms for this time is over; a batch that finds none says so


@dataclass(frozen=True, slots=True)
class Backlog:
    """S3's events that wait to be followed: the time of the oldest one, and the time when this was seen [us]."""

    since_us: int
    seen_at_us: int

    def age_s(self, now_us: int) -> float:
        """Return the age of the oldest event [s], 0 if the backlog was last seen too long ago."""
        is_over = now_us - self.seen_at_us > KEPT_S * US_PER_S
        return 0.0 if is_over else max(0, now_us - self.since_us) / US_PER_S


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch of S3's events: their number, when the oldest was sent, and when the batch began [us]."""

    events: int
    oldest_us: int
    begun_us: int

    def backlog(self, now_us: int) -> Backlog | None:
        """Return the backlog that this batch shows, with `since_us` = 0 if no event waits. None: it cannot tell.

        Others wait behind a batch that takes long. A few late events may be the last ones, or all that a poll got.
        """
        is_late, is_slow = self.begun_us - self.oldest_us > _LATE_US, now_us - self.begun_us >= _LATE_US
        if is_slow or (is_late and self.events >= MANY):
            return Backlog(self.oldest_us, now_us)
        return None if is_late else Backlog(0, now_us)
