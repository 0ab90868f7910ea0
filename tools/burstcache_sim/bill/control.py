"""What the control plane takes: both state machines, Redis control, the table, metrics."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from burstcache.core.prices import BYTES_PER_GB
from burstcache_sim.bill.cost import Amount, Usage, gb_s
from burstcache_sim.units import US_PER_H

CONTROL_MB = 512  # template.yaml
LOG_BYTES = 500  # per invocation: Lambda's own three lines
# Metrics by what has them: a node its seconds and cost; a life in a cache function its end and cost, and promotion
# another end; a key in Redis its promotion and its end; a tier that serves the proxy its latency and bytes.
_NODE_METRICS, _LIFE_METRICS, _PROMOTED_METRICS, _REDIS_METRICS, _TIER_METRICS = 2, 2, 1, 2, 2


@dataclass(frozen=True, slots=True)
class _Step:
    """What one life or one step takes of the control plane; DynamoDB in units (a transaction takes two per item).

    Writes are those of rows, leases and the digest. `tests/lifecycle/test_units_of_the_table.py` counts them.
    """

    transitions: int
    control_calls: int
    control_ms: int
    writes: int
    reads: int


# Redis control by what it does [ms]. BootNode's call of EC2 takes 1.8 s and StopNode's, by guess, half a second.
CONTROL_MS = {
    "join": 100,
    "seed": 300,
    "leave": 150,
    "boot_node": 1_820,
    "ready_node": 80,
    "check_node": 70,
    "stop_node": 520,
    "instance_stopped": 130,
}
_IN_REDIS_MS = sum(CONTROL_MS[step] for step in ("join", "seed", "leave"))
_RUN_MS = sum(CONTROL_MS[step] for step in ("boot_node", "ready_node", "stop_node", "instance_stopped"))

_UNPROMOTED = _Step(transitions=4, control_calls=0, control_ms=0, writes=9, reads=3)
_HANDED_OVER = _Step(transitions=1, control_calls=0, control_ms=0, writes=3, reads=4)  # to a life's next invocation
_PROMOTED = _Step(transitions=7, control_calls=3, control_ms=_IN_REDIS_MS, writes=19, reads=6)
_STRAIGHT = _Step(transitions=5, control_calls=3, control_ms=_IN_REDIS_MS, writes=15, reads=3)  # the node runs
_NODE_RUN = _Step(transitions=3, control_calls=4, control_ms=_RUN_MS, writes=7, reads=8)
_CHECK = _Step(transitions=3, control_calls=1, control_ms=CONTROL_MS["check_node"], writes=1, reads=3)


@dataclass(frozen=True, slots=True)
class Steps:
    """How often the control plane did what, and for how long nodes ran."""

    lives: int  # in a cache function
    promotions: int
    handovers: int
    boots: int
    node_s: int
    checks: int  # of running nodes


def control_usage(steps: Steps) -> Usage:
    """Return what the lives of keys and the runs of nodes take: both state machines, Redis control, the table."""
    through_cache = min(steps.promotions, steps.lives)
    counts = {
        _UNPROMOTED: steps.lives - through_cache,
        _PROMOTED: through_cache,
        _STRAIGHT: steps.promotions - through_cache,
        _HANDED_OVER: steps.handovers,
        _NODE_RUN: steps.boots,
        _CHECK: steps.checks,
    }
    calls = sum(step.control_calls * count for step, count in counts.items())
    return Usage(
        control_gb_s=gb_s(sum(step.control_ms * count for step, count in counts.items()), CONTROL_MB),
        function_requests=calls,
        dynamodb_writes=sum(step.writes * count for step, count in counts.items()),
        dynamodb_reads=sum(step.reads * count for step, count in counts.items()),
        transitions=sum(step.transitions * count for step, count in counts.items()),
        logs_gb=Fraction(LOG_BYTES * calls, BYTES_PER_GB),
    )


def metrics_usage(steps: Steps, reads_of_tiers: Iterable[int], span_us: int) -> Usage:
    """Return the hours of the metrics that functions emit: at most the run's, and one for each time that it is emitted.

    AWS counts begun hours: a burst that comes alone, in which all is over within minutes, is counted too low.
    """
    hours = Fraction(span_us, US_PER_H)
    emitted: list[tuple[int, Amount]] = [
        (_NODE_METRICS, Fraction(steps.node_s, 3600) + 2 * steps.boots),  # the begun hours of all runs
        (_LIFE_METRICS, steps.lives),
        (_PROMOTED_METRICS, min(steps.promotions, steps.lives)),
        (_REDIS_METRICS, steps.promotions),
        *((_TIER_METRICS, reads) for reads in reads_of_tiers),
    ]
    return Usage(metric_h=sum((metrics * min(hours, Fraction(times)) for metrics, times in emitted), Fraction(0)))
