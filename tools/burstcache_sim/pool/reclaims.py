"""Reclaims of member memory, either random (one by one or in bursts), measured, or none."""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from random import Random

from burstcache.core.errors import InvalidSettingError
from burstcache.core.pool.availability import Reclaims, poisson, zipf

_DAY_MIN = 1_440
ACCEPTED = "none, poisson:MEAN, zipf:EXPONENT or measured:FILE"
# The rate in the last months of the paper's measurement: 36 reclaims an hour among 400 members, with a warm-up each
# minute (Wang 2020, section 4.1).
USUAL_PER_MEMBER_MIN = 36 / 60 / 400


@dataclass(frozen=True, slots=True)
class ReclaimProcess:
    """A distribution of the number of members reclaimed in a minute."""

    text: str
    minute: Reclaims

    def day(self) -> dict[int, int]:
        """Return the expected minutes per day by number of reclaimed members, in the format of a measurement."""
        minutes = {count: round(share * _DAY_MIN) for count, share in self.minute.probabilities.items()}
        return {count: times for count, times in minutes.items() if times}

    def draw(self, random: Random, minutes: int) -> int:
        """Draw the number of distinct members reclaimed within some minutes."""
        counts, weights = zip(*sorted(self.minute.probabilities.items()), strict=True)
        reclaimed: list[int] = random.choices(counts, cum_weights=list(accumulate(weights)), k=minutes)
        return min(sum(reclaimed), self.minute.members)


def reclaim_process(text: str, members: int) -> ReclaimProcess:
    """Parse `none`, `poisson:2.28`, `zipf:3.23` or `measured:FILE`.

    The file is a JSON object that maps a number of reclaimed members per minute to the number of such minutes.

    Raises:
        InvalidSettingError: The text has none of these forms, the file is unreadable, or its numbers do not fit.
    """
    kind, _, of = text.partition(":")
    try:
        match kind:
            case "none":
                return ReclaimProcess(text, Reclaims(members, {0: 1.0}))
            case "poisson":
                return ReclaimProcess(text, poisson(_positive(of), members))
            case "zipf":
                return ReclaimProcess(text, zipf(_positive(of), members))
            case "measured":
                return ReclaimProcess(text, _measured(Path(of), members))
    except (OSError, ValueError) as error:
        raise InvalidSettingError(f"reclaims {text!r}: expected {ACCEPTED} ({error})") from error
    raise InvalidSettingError(f"reclaims {text!r}: expected {ACCEPTED}")


def usual(members: int) -> ReclaimProcess:
    """Return the reclaim process in the paper's last months, scaled to a pool of this size."""
    return reclaim_process(f"poisson:{USUAL_PER_MEMBER_MIN * members:.4g}", members)


def _positive(text: str) -> float:
    value = float(text)
    if not 0 < value < 1_000:
        raise ValueError(f"{text} is not above 0 and below 1000")
    return value


def _measured(path: Path, members: int) -> Reclaims:
    minutes = {int(count): int(times) for count, times in json.loads(path.read_text()).items()}
    if not minutes or min(minutes) < 0 or max(minutes) > members or min(minutes.values()) < 0:
        raise ValueError(f"{path} has other numbers than 0 to {members}")
    total = sum(minutes.values())
    return Reclaims(members, {count: times / total for count, times in minutes.items() if times})
