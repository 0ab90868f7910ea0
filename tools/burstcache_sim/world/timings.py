"""Timings of a simulated run: start-ups, boots and stops (`docs/understand/simulation.md`, "Constants")."""

from __future__ import annotations

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


THESIS_TIMINGS = Timings()
NodeTimes = Literal["usual", "thesis-runs", "tail"]
# Boots and stops of the nodes [s]. Sources: `docs/understand/simulation.md`, "Boots and stops by kind".
_NODE_TIMES_S: dict[NodeTimes, dict[NodeKind, tuple[int, int]]] = {
    "usual": {"ec2": (30, 30), "fargate": (35, 30), "fargate-spot": (35, 30)},
    "thesis-runs": dict.fromkeys(NODE_KINDS, (37, 140)),
    "tail": {"ec2": (30, 30), "fargate": (90, 30), "fargate-spot": (90, 30)},
}


def node_timings(kind: NodeKind, times: NodeTimes = "usual") -> Timings:
    """Return the thesis's timings with the boot and the stop of a kind of node."""
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
