"""Timings of a simulated run: start-ups, boots and stops (`docs/understand/simulation.md`, "Constants")."""

from __future__ import annotations

from dataclasses import dataclass, replace

from burstcache.core.parameters import US_PER_S


@dataclass(frozen=True, slots=True)
class Timings:
    """Durations of the thesis's system [us]."""

    warm_start_us: int = 20_000  # soon after the key's last cache function ended
    cold_start_us: int = 600_000
    stays_warm_us: int = 600 * US_PER_S  # a start later than this after the last end is cold
    redis_boot_us: int = 30 * US_PER_S
    redis_stop_us: int = 30 * US_PER_S
    redis_least_bill_us: int = 60 * US_PER_S


THESIS_TIMINGS = Timings()


def begun_late(timings: Timings, *, starts_us: int, boots_us: int) -> Timings:
    """Add the delays of reports to the starts of cache functions and to boots [us]."""
    return replace(
        timings,
        warm_start_us=timings.warm_start_us + starts_us,
        cold_start_us=timings.cold_start_us + starts_us,
        redis_boot_us=timings.redis_boot_us + boots_us,
    )


# A cache function hands over 10 s before the end of its 15 minutes. The next invocation starts a minute earlier.
SERVES_ALONE_US = (900 - 10 - 60) * US_PER_S
