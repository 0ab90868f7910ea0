"""How long things take in a simulated run: `docs/understand/simulation.md`, "Constants"."""

from __future__ import annotations

from dataclasses import dataclass, replace

from burstcache.core.parameters import US_PER_S


@dataclass(frozen=True, slots=True)
class Timings:
    """Durations of the thesis's system [us]."""

    warm_start_us: int = 20_000  # a cache function that ended a short time ago
    cold_start_us: int = 600_000
    stays_warm_us: int = 600 * US_PER_S  # a later start than this after the last end is cold
    redis_boot_us: int = 30 * US_PER_S
    redis_stop_us: int = 30 * US_PER_S
    redis_least_bill_us: int = 60 * US_PER_S


THESIS_TIMINGS = Timings()


def begun_late(timings: Timings, *, starts_us: int, boots_us: int) -> Timings:
    """Return timings under which cache functions and boots begin that much later, as reports wait [us]."""
    return replace(
        timings,
        warm_start_us=timings.warm_start_us + starts_us,
        cold_start_us=timings.cold_start_us + starts_us,
        redis_boot_us=timings.redis_boot_us + boots_us,
    )


# A cache function leaves 10 s before its 15 minutes are over, and has the next one started a minute before.
SERVES_ALONE_US = (900 - 10 - 60) * US_PER_S
