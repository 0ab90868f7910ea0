"""AWS usage of the control plane: both state machines, Redis control, the table, metrics."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from burstcache.core.prices import BYTES_PER_GB
from burstcache_sim.bill.cost import Amount, Usage, gb_s
from burstcache_sim.units import US_PER_H

CONTROL_MB = 512  # template.yaml
LOG_BYTES = 500  # per invocation: Lambda's own three log lines
# Metrics per resource. Node: seconds, cost. Life in a cache function: end, cost, and a second end if promoted.
# Key in Redis: promotion, end. Tier that serves the proxy: latency, bytes.
_NODE_METRICS, _LIFE_METRICS, _PROMOTED_METRICS, _REDIS_METRICS, _TIER_METRICS = 2, 2, 1, 2, 2


@dataclass(frozen=True, slots=True)
class _StepUsage:
    """AWS usage of one key's life or of one step.

    A transaction costs two DynamoDB units per item, each below 1 KB. Writes go to rows, leases and the digest.
    `tests/lifecycle/test_units_of_the_table.py` counts the units.
    """

    transitions: int
    control_calls: int
    control_ms: int
    writes: int
    reads: int


# Duration of Redis control by step [ms]. The EC2 call takes 1.8 s in BootNode and an assumed 0.5 s in StopNode.
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

_UNPROMOTED = _StepUsage(transitions=4, control_calls=0, control_ms=0, writes=9, reads=4)
_HANDED_OVER = _StepUsage(
    transitions=1, control_calls=0, control_ms=0, writes=3, reads=4
)  # to the same life's next invocation
_PROMOTED = _StepUsage(transitions=7, control_calls=3, control_ms=_IN_REDIS_MS, writes=19, reads=7)
_STRAIGHT = _StepUsage(transitions=5, control_calls=3, control_ms=_IN_REDIS_MS, writes=15, reads=4)  # the node is up
_NODE_RUN = _StepUsage(transitions=3, control_calls=4, control_ms=_RUN_MS, writes=7, reads=8)
# Reads by which a start's shard of started keys is swept of cold keys [units]. Measured by `benchmarks.hot_starts` with
# few hot keys: 0.9 to 1.5. The first starts after a deployment find room and sweep nothing.
SWEEP_READS = Fraction(3, 2)
_CHECK = _StepUsage(transitions=3, control_calls=1, control_ms=CONTROL_MS["check_node"], writes=1, reads=3)


@dataclass(frozen=True, slots=True)
class ControlCounts:
    """Counts of key lives and control-plane steps, and the nodes' running time."""

    lives: int  # keys' lives in a cache function
    promotions: int
    handovers: int
    boots: int
    node_s: int
    checks: int  # checks of running nodes


def control_usage(steps: ControlCounts) -> Usage:
    """Return the usage of keys' lives and nodes' runs: both state machines, Redis control, the table."""
    through_cache = min(steps.promotions, steps.lives)
    counts = {
        _UNPROMOTED: steps.lives - through_cache,
        _PROMOTED: through_cache,
        _STRAIGHT: steps.promotions - through_cache,
        _HANDED_OVER: steps.handovers,
        _NODE_RUN: steps.boots,
        _CHECK: steps.checks,
    }
    starts = steps.lives + counts[_STRAIGHT]
    calls = sum(step.control_calls * count for step, count in counts.items())
    return Usage(
        control_gb_s=gb_s(sum(step.control_ms * count for step, count in counts.items()), CONTROL_MB),
        function_requests=calls,
        dynamodb_writes=sum(step.writes * count for step, count in counts.items()),
        dynamodb_reads=sum(step.reads * count for step, count in counts.items()) + SWEEP_READS * starts,
        transitions=sum(step.transitions * count for step, count in counts.items()),
        logs_gb=Fraction(LOG_BYTES * calls, BYTES_PER_GB),
    )


def metrics_usage(steps: ControlCounts, reads_of_tiers: Iterable[int], span_us: int) -> Usage:
    """Return the billed hours of all metrics. Each emission counts as one hour, up to the run's hours.

    AWS bills partial hours as full hours, so this underestimates a single burst that ends within minutes.
    """
    hours = Fraction(span_us, US_PER_H)
    emitted: list[tuple[int, Amount]] = [
        (_NODE_METRICS, Fraction(steps.node_s, 3600) + 2 * steps.boots),  # full and partial hours of all runs
        (_LIFE_METRICS, steps.lives),
        (_PROMOTED_METRICS, min(steps.promotions, steps.lives)),
        (_REDIS_METRICS, steps.promotions),
        *((_TIER_METRICS, reads) for reads in reads_of_tiers),
    ]
    return Usage(metric_h=sum((metrics * min(hours, Fraction(times)) for metrics, times in emitted), Fraction(0)))
