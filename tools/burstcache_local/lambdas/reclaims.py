"""Random reclaims of tenants' environments, as measured on AWS by Wang 2020 (section 4.1)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from random import Random

from burstcache.core.pool.availability import Reclaims, poisson, zipf
from burstcache_local.lambdas.service import Lambdas

_MINUTE_S = 60.0
_DISTRIBUTIONS: dict[str, Callable[[float, int], Reclaims]] = {"poisson": poisson, "zipf": zipf}


@dataclass(frozen=True, slots=True)
class ReclaimPattern:
    """Distribution of the number of environments reclaimed per minute.

    Attributes:
        distribution: `poisson` or `zipf`.
        value: Mean per minute (`poisson`) or exponent (`zipf`).
    """

    distribution: str
    value: float

    @classmethod
    def from_text(cls, text: str) -> ReclaimPattern:
        """Parse a pattern such as `poisson:2.28`, or raise ValueError if the text is invalid."""
        distribution, _, value = text.partition(":")
        if distribution not in _DISTRIBUTIONS:
            raise ValueError(f"{text!r}: expected poisson:MEAN or zipf:EXPONENT")
        try:
            pattern = cls(distribution, float(value))
        except ValueError:
            pattern = cls(distribution, -1.0)
        if not 0 < pattern.value < float("inf"):
            raise ValueError(f"{text!r}: expected a number above 0 behind {distribution}:")
        return pattern

    def in_a_minute(self, environments: int, chance: Random) -> int:
        """Draw the number of environments, out of `environments`, that are reclaimed in one minute."""
        likely = _DISTRIBUTIONS[self.distribution](self.value, environments).probabilities
        (count,) = chance.choices(list(likely), list(likely.values()))
        return count


async def run_reclaims(pattern: ReclaimPattern, lambdas: Lambdas, log: Path, *, every_s: float = _MINUTE_S) -> None:
    """Reclaim tenants' environments forever, in one batch per minute, and log one line per batch."""
    chance = Random()
    while True:
        await asyncio.sleep(every_s)
        count = pattern.in_a_minute(lambdas.environments.of_tenants, chance)
        if tenants := lambdas.environments.reclaim(count, chance):
            line = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ} reclaimed {', '.join(sorted(tenants))}\n"
            with log.open("a") as file:
                file.write(line)
