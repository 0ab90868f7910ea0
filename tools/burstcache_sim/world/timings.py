"""Timings of a simulated run: start-ups, boots and stops (`docs/understand/simulation.md`, "Constants")."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from burstcache.core.node_kinds import NODE_KINDS, NodeKind
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


@dataclass(frozen=True, slots=True)
class MeasuredTimes:
    """Timings measured in an account, by the kind of node. An unmeasured timing has its usual value."""

    boots_s: tuple[tuple[str, float], ...] = ()
    stops_s: tuple[tuple[str, float], ...] = ()
    cold_start_ms: float | None = None  # of a cache function

    @classmethod
    def of(cls, boot_s: Mapping[str, float], stop_s: Mapping[str, float], cold_start_ms: float | None) -> MeasuredTimes:
        """Return timings from mappings of node kinds."""
        return cls(tuple(boot_s.items()), tuple(stop_s.items()), cold_start_ms)

    def timings(self, kind: NodeKind) -> Timings:
        """Return the timings of a kind of node."""
        usual = node_timings(kind)
        boot_s, stop_s = dict(self.boots_s).get(kind), dict(self.stops_s).get(kind)
        return replace(
            usual,
            redis_boot_us=usual.redis_boot_us if boot_s is None else round(boot_s * US_PER_S),
            redis_stop_us=usual.redis_stop_us if stop_s is None else round(stop_s * US_PER_S),
            cold_start_us=usual.cold_start_us if self.cold_start_ms is None else round(self.cold_start_ms * 1_000),
        )


THESIS_TIMINGS = Timings()
NamedTimes = Literal["usual", "thesis-runs", "tail"]
NodeTimes = NamedTimes | MeasuredTimes
# Boots and stops of the nodes [s]. Sources: `docs/understand/simulation.md`, "Boots and stops by kind".
_NODE_TIMES_S: dict[NamedTimes, dict[NodeKind, tuple[int, int]]] = {
    "usual": {"ec2": (30, 30), "fargate": (35, 30), "fargate-spot": (35, 30)},
    "thesis-runs": dict.fromkeys(NODE_KINDS, (37, 140)),
    "tail": {"ec2": (30, 30), "fargate": (90, 30), "fargate-spot": (90, 30)},
}


def node_timings(kind: NodeKind, times: NodeTimes = "usual") -> Timings:
    """Return the thesis's timings with the boot and the stop of a kind of node, or measured timings."""
    if isinstance(times, MeasuredTimes):
        return times.timings(kind)
    boot_s, stop_s = _NODE_TIMES_S[times][kind]
    return replace(THESIS_TIMINGS, redis_boot_us=boot_s * US_PER_S, redis_stop_us=stop_s * US_PER_S)


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
