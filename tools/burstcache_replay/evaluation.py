"""The evaluation of a replay against the simulator: tiers, latencies, bill, and causes of differences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from math import ceil
from typing import Any

from burstcache.core.parameters import US_PER_S
from burstcache.core.prices import BYTES_PER_GB
from burstcache_cli.service_use import ServiceUse
from burstcache_replay.differences import causes
from burstcache_replay.executions import NodeRun
from burstcache_replay.function_use import FunctionUse
from burstcache_replay.measured import Measured
from burstcache_replay.prediction import MEMORY, Deployment, Prediction, deployment_of, is_predicted, predict
from burstcache_replay.recording import Recorded
from burstcache_replay.summary import is_failed
from burstcache_replay.timed import booted_us, started_us, with_starts
from burstcache_sim.bill.cost import BILLED, Usage, bill
from burstcache_sim.bill.latency_model import LatencyModel
from burstcache_sim.bill.usage import (
    BILLED_BEFORE_READY_S,
    LEAST_NODE_S,
    METERED_BYTES,
    RUNNING_AFTER_S,
    STOP_CALL_S,
    live_usage,
    promotions,
)
from burstcache_sim.latency import FRONT_DOOR_MS
from burstcache_sim.world.result import RunResult
from burstcache_sim.world.timings import Timings

_CACHE = tuple(name for name, billed in BILLED.items() if billed.is_cache)
# Other items. `_AROUND` is measured in any replay. `_METERED` is metered by AWS, for deployed stacks only.
_AROUND = ("proxy_gb_s", "scheduler_gb_s", "control_gb_s", "init_gb_s", "function_requests", "transitions")
_METERED = ("front_door_512kb", "events_64kb", "dynamodb_writes", "dynamodb_reads", "alb_lcu_h", "nlb_lcu_h", "logs_gb")


@dataclass(frozen=True, slots=True)
class TierShare:
    """The requests of one tier."""

    tier: str
    predicted: int
    measured: int
    predicted_ms: float | None  # mean latency (None: no requests, or no assumption for the tier)
    measured_ms: float | None


@dataclass(frozen=True, slots=True)
class Item:
    """One item of the bill."""

    text: str
    is_cache: bool  # one of the four items on the thesis's bill
    predicted_usd: float
    measured_usd: float


@dataclass(frozen=True, slots=True)
class Quantity:
    """A predicted and measured quantity that explains the bill or the tiers."""

    text: str
    predicted: float
    measured: float


@dataclass(frozen=True, slots=True)
class Evaluation:
    """A replay's predicted and measured tiers, latencies and costs."""

    policy: str
    requests: int
    predicted: int  # requests with a prediction: all except hits in readers' memory and requests for missing objects
    same_tier: int  # predicted requests served by the predicted tier
    same_tier_as_timed: int  # the same number if simulated functions and nodes are ready at the measured times
    tiers: tuple[TierShare, ...]
    failed: int
    causes: Mapping[str, int]  # requests served by another tier than predicted, by cause
    items: tuple[Item, ...]
    quantities: tuple[Quantity, ...]

    @property
    def same_tier_pct(self) -> float:
        """Share of the predicted requests served by the predicted tier [%]."""
        return 100 * self.same_tier / max(1, self.predicted)

    def usd(self, *, only_cache: bool) -> tuple[float, float]:
        """Return the predicted and the measured total [USD]."""
        items = [item for item in self.items if item.is_cache or not only_cache]
        return sum(item.predicted_usd for item in items), sum(item.measured_usd for item in items)

    def as_dict(self) -> dict[str, Any]:
        """Return the evaluation for JSON, including the totals."""
        names = ("predicted", "measured")
        cache, total = (dict(zip(names, self.usd(only_cache=only), strict=True)) for only in (True, False))
        return asdict(self) | {"same_tier_pct": self.same_tier_pct, "cache_usd": cache, "total_usd": total}


def evaluate(recorded: Recorded, measured: Measured, timings: Timings) -> Evaluation:
    """Compare a replay with its prediction.

    Args:
        recorded: The replay's outcomes.
        measured: The stack's usage.
        timings: The simulator's timings.

    Raises:
        InvalidSettingError: The stack cannot be simulated here.
    """
    deployment = deployment_of(measured, recorded)
    predicted = predict(deployment, recorded, timings)
    return Evaluation(
        policy=deployment.name,
        requests=len(recorded.outcomes),
        predicted=sum(map(is_predicted, recorded.outcomes)),
        same_tier=_same(predicted, recorded),
        same_tier_as_timed=_same_as_timed(deployment, recorded, measured, timings),
        tiers=_tiers(predicted, recorded, deployment),
        failed=sum(map(is_failed, recorded.outcomes)),
        causes=causes(predicted.tiers, recorded.outcomes, recorded.keys),
        items=_items(predicted.result, recorded, measured, deployment),
        quantities=_quantities(predicted.result, recorded, measured, timings),
    )


def _same(predicted: Prediction, recorded: Recorded) -> int:
    pairs = zip(predicted.tiers, recorded.outcomes, strict=True)
    return sum(
        tier == outcome.answer.tier and is_predicted(outcome) and not is_failed(outcome) for tier, outcome in pairs
    )


def _same_as_timed(deployment: Deployment, recorded: Recorded, measured: Measured, timings: Timings) -> int:
    """Count the correctly predicted requests in a simulation with the measured function starts and node readiness."""
    timings = with_starts(timings, recorded, measured)
    predicted = predict(deployment, recorded, timings)
    late_us = _ready_late_us(predicted.result, measured.executions.node_runs, recorded.replay.began_us)
    if late_us is not None:
        timings = replace(timings, redis_boot_us=max(0, timings.redis_boot_us + late_us))
        predicted = predict(deployment, recorded, timings)
    return _same(predicted, recorded)


def _tiers(predicted: Prediction, recorded: Recorded, deployment: Deployment) -> tuple[TierShare, ...]:
    expected = Counter(predicted.tiers)
    latencies_ms: dict[str, list[float]] = {}
    for outcome in recorded.outcomes:
        if not is_failed(outcome):
            latencies_ms.setdefault(outcome.answer.tier or f"status {outcome.answer.status}", []).append(
                1e3 * outcome.latency_s
            )
    clock = LatencyModel(front_door_ms=FRONT_DOOR_MS if deployment.setup.readers == "internet" else 0.0)
    assumed = {"s3": clock.own_tiers.s3_ms, "lambda": clock.own_tiers.lambda_ms, "redis": clock.own_tiers.redis_ms}
    return tuple(
        TierShare(
            tier,
            expected[tier],
            len(times_ms := latencies_ms.get(tier, [])),
            assumed[tier] + clock.own_tiers.network_ms if tier in assumed else None,
            sum(times_ms) / len(times_ms) if times_ms else None,
        )
        for tier in sorted({*expected, *latencies_ms}, key=lambda tier: (tier != MEMORY, tier))
    )


def _items(result: RunResult, recorded: Recorded, measured: Measured, deployment: Deployment) -> tuple[Item, ...]:
    busy_s = len({int(due_s / recorded.replay.speed) for due_s in recorded.due_s.tolist()})
    expected = live_usage(result, deployment.setup, period_us=max(1, result.end_us), busy_s=max(1, busy_s))
    met = _usage(result, recorded, measured, deployment)
    around = _AROUND if measured.services is None else (*_AROUND, *_METERED)
    return tuple(
        Item(
            BILLED[name].label(expected),
            BILLED[name].is_cache,
            *(_usd(name, usage, deployment) for usage in (expected, met)),
        )
        for name in (*_CACHE, *around)
        if getattr(expected, name) or getattr(met, name)
    )


def _usd(name: str, usage: Usage, deployment: Deployment) -> float:
    alone = Usage(usage.architecture, usage.node_name, **{name: getattr(usage, name)})
    return bill(alone, deployment.prices).usd


def _usage(result: RunResult, recorded: Recorded, measured: Measured, deployment: Deployment) -> Usage:
    """Return the replay's usage. S3 GETs are derived from the code path of each request, key life and promotion.

    The number of guests loaded during boots is taken from the prediction, because execution histories lack it.
    """
    functions, executions = measured.functions, measured.executions
    cache = functions.get("CacheFunction", FunctionUse())
    handovers = max(0, cache.invocations - len(executions.lives.functions_us))
    from_s3 = sum(outcome.answer.tier == "s3" for outcome in recorded.outcomes)
    put_by_control = 2 * executions.lives.promotions + result.guests.loads
    others = [use for name, use in functions.items() if name != "CacheFunction"]
    services = measured.services or ServiceUse()
    return Usage(
        architecture=deployment.setup.architecture,
        node_name=deployment.setup.node_name,
        cache_gb_s=_gb_s(cache),
        cache_requests=cache.invocations,
        node_h=Fraction(sum(map(_billed_s, executions.node_runs)), 3600),
        s3_gets=from_s3 + cache.invocations + handovers + put_by_control,
        proxy_gb_s=_gb_s(functions.get("ProxyFunction", FunctionUse())),
        scheduler_gb_s=_gb_s(functions.get("SchedulerFunction", FunctionUse())),
        control_gb_s=_gb_s(functions.get("RedisControlFunction", FunctionUse())),
        init_gb_s=sum((_gb_s(replace(use, ran_ms=use.init_ms)) for use in functions.values()), Fraction(0)),
        function_requests=sum(use.invocations for use in others),
        transitions=executions.transitions,
        front_door_512kb=max(round(services.door_requests), ceil(services.door_bytes / METERED_BYTES)),
        events_64kb=round(services.events),
        dynamodb_writes=Fraction(services.table_writes),
        dynamodb_reads=Fraction(services.table_reads),
        alb_lcu_h=Fraction(services.alb_lcu_h),
        nlb_lcu_h=Fraction(services.nlb_lcu_h),
        logs_gb=Fraction(round(services.log_bytes), BYTES_PER_GB),
    )


def _gb_s(use: FunctionUse) -> Fraction:
    return Fraction(use.ran_ms * use.memory_mb, 1024 * 1000)


def _billed_s(run: NodeRun) -> int:
    """Estimate the billed seconds of a node's run. The execution history lacks the time of EC2's state `running`."""
    if not run.stop_us:
        return LEAST_NODE_S
    if run.ready_us:
        running_us = run.ready_us - BILLED_BEFORE_READY_S * US_PER_S
    else:
        running_us = run.boot_us + RUNNING_AFTER_S * US_PER_S
    return max(LEAST_NODE_S, -(-(run.stop_us - running_us) // US_PER_S) + STOP_CALL_S)


def _ready_late_us(result: RunResult, runs: Sequence[NodeRun], began_us: int) -> int | None:
    """Return the mean delay of node readiness relative to the prediction [us], or None if the boot counts differ."""
    ready_us = sorted(run.ready_us - began_us for run in runs if run.ready_us)
    spans_us = sorted(result.redis_spans_us)
    if not ready_us or len(ready_us) != len(spans_us):
        return None
    return sum(met - expected for met, (expected, _) in zip(ready_us, spans_us, strict=True)) // len(ready_us)


def _quantities(result: RunResult, recorded: Recorded, measured: Measured, timings: Timings) -> tuple[Quantity, ...]:
    runs = [run for run in measured.executions.node_runs if run.ready_us]
    cache = measured.functions.get("CacheFunction", FunctionUse())
    lives = measured.executions.lives
    served_us = sum(run.stop_us - run.ready_us for run in runs if run.stop_us)
    quantities = [
        Quantity("lives in a cache function", result.invocations, len(lives.functions_us)),
        Quantity("run time of the cache function [s]", result.lambda_ms / 1e3, cache.ran_ms / 1e3),
        Quantity("promotions with a lease", promotions(result), lives.promotions),
        Quantity("runs of nodes", result.redis_starts, len(measured.executions.node_runs)),
        Quantity("time with a serving node [s]", result.redis_us_exact / 1e6, served_us / 1e6),
    ]
    if (call_us := started_us(recorded, measured)) is not None:
        quantities.append(Quantity("request to function call [s]", timings.warm_start_us / 1e6, call_us / 1e6))
    if (boot_us := booted_us(measured)) is not None:
        quantities.append(Quantity("boot time [s]", timings.redis_boot_us / 1e6, boot_us / 1e6))
        first_us = min(run.ready_us for run in runs) - recorded.replay.began_us
        if result.redis_spans_us:
            quantities.append(Quantity("first node ready [s]", min(result.redis_spans_us)[0] / 1e6, first_us / 1e6))
    if lives.failures:
        quantities.append(Quantity("lives that failed", 0, lives.failures))
    return tuple(quantities)
