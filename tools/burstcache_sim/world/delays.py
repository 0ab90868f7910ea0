"""Measured delays in dated sheets: one row per start, boot or tier, with sample count and source.

Simulated runs take their timings from these static rows, as bills take prices from `burstcache.core.prices`. Timings
are medians because single starts took up to twice as long.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from burstcache.core.errors import InvalidSettingError
from burstcache_sim.world.timings import THESIS_TIMINGS, Timings

US_PER_MS = 1000


@dataclass(frozen=True, slots=True)
class Delay:
    """A measured delay for one object size."""

    name: str
    object_size: str
    median_ms: float
    least_ms: float
    most_ms: float
    samples: int
    source: str


@dataclass(frozen=True, slots=True)
class DelaySheet:
    """Delays of one system at one time."""

    name: str
    measured: str
    rows: tuple[Delay, ...]

    def timings(self, object_size: str) -> Timings:
        """Return the timings of a simulated run for objects of this size.

        Missing rows default to the values in the thesis's text.

        Raises:
            InvalidSettingError: The sheet has no row for this size.
        """
        medians_us = {row.name: round(row.median_ms * US_PER_MS) for row in self.rows if row.object_size == object_size}
        if not medians_us:
            sizes = dict.fromkeys(row.object_size for row in self.rows)
            raise InvalidSettingError(f"object size {object_size}: expected one of {', '.join(sizes)}")
        fields = {field: medians_us[name] for name, field in _FIELDS.items() if name in medians_us}
        return replace(THESIS_TIMINGS, **fields)


WARM_START, COLD_START, BOOT = "warm start of a cache function", "cold start of a cache function", "boot of a node"
_FIELDS = {WARM_START: "warm_start_us", COLD_START: "cold_start_us", BOOT: "redis_boot_us"}
_LOGS = "Buner 2022, bunert/caching-system, code/evaluation/simulation"
_STARTS, _LATENCIES = f"{_LOGS}/startup_simulations", f"{_LOGS}/latency_simulations"

# Start-up delays are measured from the triggering request to the first possible answer of the new tier. Latencies are
# measured at the client, and include about 24 ms of internet latency.
THESIS_DELAYS = DelaySheet(
    name="thesis-2022",
    measured="2022-02-16 to 2022-02-21",
    rows=(
        Delay(WARM_START, "100B", 18.0, 15, 31, 30, _STARTS),
        Delay(WARM_START, "1KB", 16.0, 11, 26, 30, _STARTS),
        Delay(WARM_START, "1MB", 16.5, 14, 44, 30, _STARTS),
        Delay(COLD_START, "100B", 579.5, 496, 700, 30, _STARTS),
        Delay(COLD_START, "1KB", 577.5, 444, 852, 30, _STARTS),
        Delay(COLD_START, "1MB", 597.0, 533, 804, 30, _STARTS),
        Delay(BOOT, "100B", 30_925.0, 18_291, 60_905, 30, _STARTS),
        Delay(BOOT, "1KB", 34_795.0, 30_676, 50_553, 30, _STARTS),
        Delay(BOOT, "1MB", 41_833.0, 30_759, 51_688, 30, _STARTS),
        Delay("answer of a cache function", "100B", 25.6, 19.8, 33.8, 30, _LATENCIES),
        Delay("answer of a cache function", "1KB", 25.6, 20.9, 32.6, 30, _LATENCIES),
        Delay("answer of a cache function", "1MB", 91.9, 86.2, 107.3, 30, _LATENCIES),
        Delay("answer of a Redis node", "100B", 24.7, 19.1, 32.3, 30, _LATENCIES),
        Delay("answer of a Redis node", "1KB", 24.6, 19.5, 32.6, 30, _LATENCIES),
        Delay("answer of a Redis node", "1MB", 85.1, 79.1, 97.1, 30, _LATENCIES),
        Delay("answer of ElastiCache", "100B", 25.2, 20.3, 33.4, 29, _LATENCIES),
        Delay("answer of ElastiCache", "1KB", 24.2, 20.5, 37.9, 29, _LATENCIES),
        Delay("answer of ElastiCache", "1MB", 89.7, 85.5, 103.2, 29, _LATENCIES),
        Delay("answer of S3 through the system", "100B", 70.0, 56.2, 283.5, 30, _LATENCIES),
        Delay("answer of S3 through the system", "1KB", 68.9, 62.9, 495.6, 30, _LATENCIES),
        Delay("answer of S3 through the system", "1MB", 176.9, 166.5, 389.5, 30, _LATENCIES),
        Delay("answer of S3 through the system", "100MB", 2819.7, 2243.5, 4111.2, 30, _LATENCIES),
        Delay("answer of S3 alone", "100B", 72.7, 58.5, 271.5, 30, _LATENCIES),
        Delay("answer of S3 alone", "1KB", 68.4, 57.5, 102.5, 30, _LATENCIES),
        Delay("answer of S3 alone", "1MB", 128.0, 102.8, 224.6, 30, _LATENCIES),
    ),
)

DELAY_SHEETS = {sheet.name: sheet for sheet in (THESIS_DELAYS,)}


def delayed(text: str) -> Timings:
    """Return the timings named by `SHEET:SIZE`, such as `thesis-2022:1KB`.

    Raises:
        InvalidSettingError: The sheet does not exist or lacks the size.
    """
    name, _, object_size = text.partition(":")
    if name not in DELAY_SHEETS:
        raise InvalidSettingError(
            f"delays {text}: expected {', '.join(DELAY_SHEETS)} and a size, such as thesis-2022:1KB"
        )
    return DELAY_SHEETS[name].timings(object_size)
