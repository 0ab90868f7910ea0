"""The receipt: a stack's itemised bill so far, and other systems' bills for the same requests."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil
from typing import Any

from burstcache.core.policies import POLICIES
from burstcache.core.prices import BYTES_PER_GB, PriceSheet
from burstcache.core.rows import NodeRow
from burstcache.core.worth import sheet_of_region
from burstcache_cli.service_use import ServiceUse
from burstcache_dashboard.measured import Measured
from burstcache_dashboard.source import Rows, Source
from burstcache_sim.bill.control import ControlCounts, control_usage
from burstcache_sim.bill.cost import Bill, Usage, add, bill
from burstcache_sim.bill.counted import StackCounts, counted_usage
from burstcache_sim.bill.setup import Setup
from burstcache_sim.bill.usage import METERED_BYTES, idle_usage, queue_requests
from burstcache_sim.units import HOURS_PER_MONTH, US_PER_H

_CACHE, _PROXY, _SCHEDULER, _ORIGIN = "CacheFunction", "ProxyFunction", "SchedulerFunction", "OriginFunction"
_SELF_TEST = "SelfTestFunction"  # used by deployments and `doctor`
_JANITOR = "JanitorFunction"  # already included in the idle usage
# Systems on the market, and a theoretical lower bound, as described in docs/use/advise.md.
RIVALS = (
    "s3-only",
    "s3-express",
    "ec2",
    "elasticache-valkey",
    "elasticache-redis",
    "serverless-valkey",
    "cloudfront",
    "perfect-automation",
)
_OTHERS = sheet_of_region("us-east-1")
_COUNTED = (
    "DynamoDB, Step Functions, logs and metrics are derived from the state transitions of keys and nodes, as in the"
    " simulator. Not in this bill: requests of programs with the client library, such as those for slices of large"
    " objects. The free tier is not deducted."
)
_METERED = (
    "DynamoDB, EventBridge, messages of the queue of S3's events, logs, front door and balancers: from CloudWatch, on a"
    " best effort. AWS does not count the rest by stack: Step Functions transitions are derived from lives, promotions"
    " and runs of nodes, S3 GETs from reads, lives and promotions. Not in this bill: requests of programs with the"
    " client library to S3 and S3 Express, such as those for slices of large objects, INIT of functions, S3's PUTs and"
    " events, alarms and CloudWatch's own dashboard, KMS, X-Ray, a pool's environments and hub, databases of state,"
    " burstable nodes above their baseline. The free tier is not deducted."
)
_CHECK_S = 60  # default interval of a running node's utilisation checks
_LEAST_S = 60.0  # minimum period for an extrapolation to a month
_MOST_SPREAD = 1_000_000  # maximum number of reconstructed requests, which take 0.25 GB of memory and some seconds


@dataclass(frozen=True, slots=True)
class Receipt:
    """A stack's costs since the start of the billed period."""

    so_far: Bill
    month_usd: float | None  # extrapolated (None: the period is too short)
    idle_month_usd: float  # part of `month_usd` that does not depend on requests
    note: str = ""  # sources, and costs that are not included


def receipt_of(
    measured: Measured, rows: Rows, setup: Setup, prices: PriceSheet, *, policy: str | None = None, node_runs: int = 0
) -> Receipt:
    """Return a stack's bill so far, and an extrapolation to a month.

    Items without a price in the sheet are billed at Northern Virginia's price, as in the stack's caching policy.

    Args:
        measured: The stack's figures.
        rows: The stack's table.
        setup: The stack's setup.
        prices: Prices in the stack's region.
        policy: Policy of a local run, or None for a deployed stack, where AWS meters the usage.
        node_runs: Number of node runs in a local run.
    """
    period_us = max(1, rows.at_us - measured.since_us)
    standing = idle_usage(setup, period_us)
    usage = _usage(measured, rows, setup, standing)
    if policy is not None:
        usage = add((usage, counted_usage(_counted(measured, usage, policy, node_runs), setup, period_us)))
    elif measured.services:
        usage = _metered(usage, measured, measured.services, setup)
    completed = _completed(prices)
    so_far = bill(usage, completed)
    idle_month = bill(idle_usage(setup, HOURS_PER_MONTH * US_PER_H), completed)
    month_usd = None
    if period_us >= _LEAST_S * 1_000_000:
        by_use = float(so_far.usd_exact - bill(standing, completed).usd_exact)
        month_usd = by_use * HOURS_PER_MONTH * US_PER_H / period_us + idle_month.usd
    note = f"{_METERED if policy is None else _COUNTED} {_sources_text(prices, so_far)}"
    return Receipt(so_far, month_usd, idle_month.usd, note)


def _completed(prices: PriceSheet) -> PriceSheet:
    """Add Northern Virginia's prices for items that a price sheet lacks."""
    others = [row for row in _OTHERS.rows if row.item not in {row.item for row in prices.rows}]
    return replace(prices, rows=(*prices.rows, *others))


def _sources_text(prices: PriceSheet, so_far: Bill) -> str:
    """Return a sentence on the regions of a bill's prices."""
    own = {row.item for row in prices.rows}
    borrowed = [line.text for line in so_far.lines if line.item not in own]
    exceptions = f", but for {', '.join(borrowed)}: {_OTHERS.region}'s" if borrowed else ""
    return f"Prices: {prices.region}'s of {prices.looked_up}{exceptions}."


def _counted(measured: Measured, usage: Usage, policy: str, node_runs: int) -> StackCounts:
    node_s = int(usage.node_h * 3600)
    calls = {name: use.invocations for name, use in measured.functions.items() if name not in (_PROXY, _SELF_TEST)}
    steps = ControlCounts(
        lives=calls.get(_CACHE, 0),  # each successor in a long life counts as a life
        promotions=measured.promotions,
        handovers=0,
        boots=node_runs,
        node_s=node_s,
        checks=node_s // _CHECK_S,
    )
    return StackCounts(
        reads={tier: use.reads for tier, use in measured.tiers.items()},
        busy_s=measured.busy_s,
        messages=calls.get(_SCHEDULER, 0),
        gathers=POLICIES.get(policy) is not None,
        calls=sum(calls.values()),
        origin_calls=calls.get(_ORIGIN, 0),
        steps=steps,
    )


def _metered(usage: Usage, measured: Measured, services: ServiceUse, setup: Setup) -> Usage:
    """Complete a deployed stack's usage with AWS's metrics. The janitor's reads are a separate item."""
    node_s = int(usage.node_h * 3600)
    lives, invocations = round(services.lives), int(usage.cache_requests)
    steps = ControlCounts(
        lives=min(invocations, lives),
        promotions=measured.promotions,
        handovers=max(0, invocations - lives),
        boots=round(services.node_parts),  # each execution in a long run has as many transitions as a short run
        node_s=node_s,
        checks=node_s // _CHECK_S,
    )
    return replace(
        usage,
        queue_requests=queue_requests(round(services.queued_events), setup),
        front_door_512kb=max(round(services.door_requests), ceil(services.door_bytes / METERED_BYTES)),
        alb_lcu_h=_amount(services.alb_lcu_h),
        nlb_lcu_h=_amount(services.nlb_lcu_h),
        events_64kb=round(services.events),
        dynamodb_reads=max(Fraction(0), _amount(services.table_reads) - usage.janitor_reads),
        dynamodb_writes=_amount(services.table_writes),
        transitions=control_usage(steps).transitions,
        logs_gb=Fraction(round(services.log_bytes), BYTES_PER_GB),
        metric_h=measured.metric_h,
    )


def _amount(metered: float) -> Fraction:
    return Fraction(metered).limit_denominator(1_000_000)


def _usage(measured: Measured, rows: Rows, setup: Setup, standing: Usage) -> Usage:
    used = {name: use for name, use in measured.functions.items() if name not in (_SELF_TEST, _JANITOR)}
    gb_s = {name: Fraction(use.billed_ms * use.memory_mb, 1000 * 1024) for name, use in used.items()}
    cache, proxy, scheduler = (gb_s.get(name, Fraction(0)) for name in (_CACHE, _PROXY, _SCHEDULER))
    cache_requests = used[_CACHE].invocations if _CACHE in used else 0
    from_s3 = measured.tiers.get("s3")
    body_bytes = sum(use.bytes for use in measured.tiers.values())
    is_http_api = setup.front_door == "http-api"
    return replace(
        standing,
        node_name=setup.node_name,
        cache_gb_s=cache,
        cache_requests=cache_requests,
        node_h=Fraction(round(measured.node_s + sum(running_s(node, rows.at_us) for node, _ in rows.nodes)), 3600),
        # S3 GETs: one per start of a cache function, two per promotion to Redis.
        s3_gets=(from_s3.reads if from_s3 else 0) + cache_requests + 2 * measured.promotions,
        internet_gb=Fraction(body_bytes, BYTES_PER_GB),
        front_door_512kb=measured.reads + measured.failed_reads if is_http_api else 0,
        alb_lcu_h=0 if is_http_api else Fraction(body_bytes, BYTES_PER_GB) / Fraction(4, 10),
        proxy_gb_s=proxy,
        scheduler_gb_s=scheduler,
        control_gb_s=sum(gb_s.values(), Fraction(0)) - cache - proxy - scheduler,
        function_requests=sum(use.invocations for use in used.values()) - cache_requests,
    )


def running_s(node: NodeRow, now_us: int) -> float:
    """Return a node's running time that has not been metered yet [s]."""
    if node.phase_at(now_us) not in ("running", "booting"):
        return 0.0
    return max(0, now_us - (node.metered_at_us or node.ready_at_us or now_us)) / 1_000_000


def receipt_fields(receipt: Receipt) -> dict[str, Any]:
    """Return a receipt's fields for the page."""
    lines = [line for line in receipt.so_far.lines if line.quantity]
    return {
        "usd": receipt.so_far.usd,
        "monthUsd": receipt.month_usd,
        "idleMonthUsd": receipt.idle_month_usd,
        "lines": [
            {
                "text": line.text,
                "quantity": float(line.quantity),
                "unit": line.unit,
                "usd": line.usd,
                "idle": line.is_fixed,
            }
            for line in lines
        ],
        "note": receipt.note,
    }


def rivals_of(source: Source, rows: Rows) -> dict[str, Any]:
    """Return other systems' bills for the same requests, cheapest first. The first call takes seconds.

    The bills cover the same period as the stack's bill, or a shorter period if older requests are not in memory.

    For a deployed stack, up to a million requests are reconstructed from CloudWatch's count per time slot. They are
    distributed over the keys in proportion to the request counts in the keys' rows.
    """
    from burstcache_sim.bill.comparison import Comparison
    from burstcache_sim.bill.demand import demand_of
    from burstcache_sim.bill.locality import locality_of

    measured = source.measures.read()
    requests, is_exact = source.measures.newest_requests(), True
    if requests is None:
        requests, is_exact = _spread(rows, measured), False
    if not requests:
        return {"rivals": [], "requests": 0, "exact": is_exact}
    trace, setup = _trace(requests), source.setup
    is_complete = len(requests) >= measured.reads
    first_us = min(at_us for at_us, _, _ in requests)
    since_us = min(first_us, measured.since_us) if is_complete else first_us
    period_us = max(rows.at_us - since_us, 1)
    demand = demand_of(trace, object_bytes=setup.object_bytes, period_us=period_us)
    locality = locality_of(trace, object_bytes=setup.object_bytes, period_us=period_us)
    comparison = Comparison(demand, locality, source.prices, setup)
    cheapest: dict[str, Any] = {}
    for offer in comparison.compare_competitors():
        kind = offer.name.partition(":")[0]
        if kind in RIVALS and kind not in cheapest:
            cheapest[kind] = {
                "name": offer.name,
                "usd": offer.usd,
                "monthUsd": offer.usd_per_month,
                "inMemoryPct": offer.in_memory_pct,
                "note": offer.note,
                "lines": [{"text": line.text, "usd": line.usd} for line in offer.bill.lines if line.usd_exact],
            }
    return {
        "rivals": list(cheapest.values()),
        "requests": len(requests),
        "reads": measured.reads,
        "sinceMs": since_us // 1000,
        "exact": is_exact,
        "complete": is_complete,
    }


def _spread(rows: Rows, measured: Measured) -> list[tuple[int, str, int]]:
    """Reconstruct requests, evenly within each time slot, with keys in proportion to the counts in the keys' rows."""
    keys = [(row.key, row.size_bytes) for row in rows.keys for _ in range(max(1, len(row.window)))]
    if not keys:
        return []
    requests, number = [], 0
    for start_s, counts in reversed(measured.series):
        count = sum(counts.values())
        for place in range(max(0, count - (_MOST_SPREAD - number)), count):
            # The prime stride visits all keys before any repeats, unless it divides the number of keys.
            key, size = keys[number * 7919 % len(keys)]
            requests.append((start_s * 1_000_000 + place * measured.slot_s * 1_000_000 // count, key, size))
            number += 1
    return requests


def _trace(requests: list[tuple[int, str, int]]) -> Any:
    import numpy as np

    from burstcache_sim.traces.trace import Trace

    requests = sorted(requests)
    number_of: dict[str, int] = {}
    ids = [number_of.setdefault(key, len(number_of)) for _, key, _ in requests]
    begun_us = requests[0][0]
    return Trace(
        np.array([at_us - begun_us for at_us, _, _ in requests], np.int64),
        np.array(ids, np.int32),
        np.array([size for _, _, size in requests], np.int64),
        tuple(number_of),
    )
