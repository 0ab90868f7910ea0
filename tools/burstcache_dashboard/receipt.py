"""The bill so far, item by item, and what others would have billed for the same requests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil
from typing import Any, Literal

from burstcache.core.policies import POLICIES
from burstcache.core.prices import BYTES_PER_GB, PriceSheet
from burstcache.core.rows import NodeRow
from burstcache.core.worth import sheet_of_region
from burstcache_cli.service_use import ServiceUse
from burstcache_dashboard.measured import Measured
from burstcache_dashboard.source import Rows, Source
from burstcache_sim.bill.control import Steps, control_usage
from burstcache_sim.bill.cost import Bill, Usage, add, bill
from burstcache_sim.bill.counted import Counted, counted_usage
from burstcache_sim.bill.setup import Setup
from burstcache_sim.bill.usage import METERED_BYTES, idle_usage
from burstcache_sim.units import HOURS_PER_MONTH, US_PER_H

_CACHE, _PROXY, _SCHEDULER = "CacheFunction", "ProxyFunction", "SchedulerFunction"
_SELF_TEST = "SelfTestFunction"  # of the deployment and of `doctor`
_JANITOR = "JanitorFunction"  # what stands by the hour has it
# What everybody can buy today, and the bound that nobody sells. Each has a line of its own in docs/use/advise.md.
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
    "DynamoDB, Step Functions, logs and metrics: by how often keys and nodes went through their states, as the"
    " simulator counts. The free tier is not deducted."
)
_METERED = (
    "DynamoDB, EventBridge, logs, front door and balancers: as CloudWatch counted them, which it does by best effort."
    " What AWS does not count by stack is counted here: transitions of Step Functions by lives, promotions and runs of"
    " nodes, S3's GETs by what each read, life and promotion takes. Not in this bill: INIT of functions, S3's PUTs and"
    " events, alarms and CloudWatch's own dashboard, KMS, X-Ray, a pool's environments and hub, databases of state,"
    " what burstable nodes take above their share. The free tier is not deducted."
)
_CHECK_S = 60  # how often a running node is looked at, by default
_LEAST_S = 60.0  # a shorter time says nothing of a month
_MOST_SPREAD = 1_000_000  # requests of a deployed stack: a quarter of a gigabyte and some seconds


@dataclass(frozen=True, slots=True)
class Receipt:
    """What a stack has cost since an instant."""

    so_far: Bill
    month_usd: float | None  # at the rate of the time so far; None: too short a time
    idle_month_usd: float  # of that: what stands with or without requests
    note: str = ""  # how it was counted, and what is not in it


def setup_of(parameters: Mapping[str, str]) -> Setup:
    """Return how a stack with these parameters is deployed, as far as its bill depends on it."""
    usual, relay = Setup(), parameters.get("Relay", "nlb")
    assert relay in ("nlb", "direct", "none"), "the template accepts no other"
    door: Literal["alb", "http-api"] = "alb" if parameters.get("FrontDoor") == "alb" else "http-api"
    return Setup(
        instance_type=parameters.get("RedisInstanceType", usual.instance_type),
        cache_memory_mb=int(parameters.get("CacheMemoryMb", usual.cache_memory_mb)),
        front_door=door,
        readers="internet",
        nodes=int(parameters.get("RedisNodeCount", 1)),
        always_on_nodes=int(parameters.get("RedisAlwaysOnNodes", 0)),
        relay=relay,  # type: ignore[arg-type]  # as asserted
        express=bool(parameters.get("ExpressZone")),
    )


def receipt_of(
    measured: Measured, rows: Rows, setup: Setup, prices: PriceSheet, *, policy: str | None = None, node_runs: int = 0
) -> Receipt:
    """Return what a stack has cost so far, and what a month like that costs.

    What the sheet has no price for is billed at Northern Virginia's, as the stack's own policy weighs it.

    Args:
        measured: What it has measured.
        rows: Its table.
        setup: How it is deployed.
        prices: The prices of its region.
        policy: Of a local run. None for a deployed stack, whose services are metered by AWS.
        node_runs: Of the nodes of a local run.
    """
    period_us = max(1, rows.at_us - measured.since_us)
    standing = idle_usage(setup, period_us)
    usage = _usage(measured, rows, setup, standing)
    if policy is not None:
        usage = add((usage, counted_usage(_counted(measured, usage, policy, node_runs), setup, period_us)))
    elif measured.services:
        usage = _metered(usage, measured, measured.services)
    completed = _completed(prices)
    so_far = bill(usage, completed)
    idle_month = bill(idle_usage(setup, HOURS_PER_MONTH * US_PER_H), completed)
    month_usd = None
    if period_us >= _LEAST_S * 1_000_000:
        by_use = float(so_far.usd_exact - bill(standing, completed).usd_exact)
        month_usd = by_use * HOURS_PER_MONTH * US_PER_H / period_us + idle_month.usd
    note = f"{_METERED if policy is None else _COUNTED} {_whose(prices, so_far)}"
    return Receipt(so_far, month_usd, idle_month.usd, note)


def _completed(prices: PriceSheet) -> PriceSheet:
    """Return a sheet with Northern Virginia's prices of what it leaves out."""
    others = [row for row in _OTHERS.rows if row.item not in {row.item for row in prices.rows}]
    return replace(prices, rows=(*prices.rows, *others))


def _whose(prices: PriceSheet, so_far: Bill) -> str:
    """Return which region's prices a bill has: a stack's own region may have no sheet."""
    own = {row.item for row in prices.rows}
    lent = [line.text for line in so_far.lines if line.item not in own]
    apart = f", but for {', '.join(lent)}: {_OTHERS.region}'s" if lent else ""
    return f"Prices: {prices.region}'s of {prices.looked_up}{apart}."


def _counted(measured: Measured, usage: Usage, policy: str, node_runs: int) -> Counted:
    node_s = int(usage.node_h * 3600)
    calls = {name: use.invocations for name, use in measured.functions.items() if name not in (_PROXY, _SELF_TEST)}
    steps = Steps(
        lives=calls.get(_CACHE, 0),  # one that follows another in a long life is taken for a life
        promotions=measured.promotions,
        handovers=0,
        boots=node_runs,
        node_s=node_s,
        checks=node_s // _CHECK_S,
    )
    return Counted(
        reads={tier: use.reads for tier, use in measured.tiers.items()},
        busy_s=measured.busy_s,
        messages=calls.get(_SCHEDULER, 0),
        gathers=POLICIES.get(policy) is not None,
        calls=sum(calls.values()),
        steps=steps,
    )


def _metered(usage: Usage, measured: Measured, services: ServiceUse) -> Usage:
    """Return a deployed stack's usage with what AWS's services counted; the janitor's reads have their own line."""
    node_s = int(usage.node_h * 3600)
    lives, invocations = round(services.lives), int(usage.cache_requests)
    steps = Steps(
        lives=min(invocations, lives),
        promotions=measured.promotions,
        handovers=max(0, invocations - lives),
        boots=round(services.node_parts),  # a part of a long run enters as many states as a run
        node_s=node_s,
        checks=node_s // _CHECK_S,
    )
    return replace(
        usage,
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
        instance_type=setup.instance_type,
        cache_gb_s=cache,
        cache_requests=cache_requests,
        node_h=Fraction(round(measured.node_s + sum(running_s(node, rows.at_us) for node, _ in rows.nodes)), 3600),
        # A cache function asks S3 when it starts, and what takes a key to Redis asks twice.
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
    """Return for how long a node has run that nobody has counted yet [s]."""
    if node.phase_at(now_us) not in ("running", "booting"):
        return 0.0
    return max(0, now_us - (node.metered_at_us or node.ready_at_us or now_us)) / 1_000_000


def receipt_fields(receipt: Receipt) -> dict[str, Any]:
    """Return a receipt as the page shows it."""
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
    """Return what others would have billed for the requests so far, cheapest first; takes seconds at first.

    They are for the same time as our bill; where only the newest requests are remembered, for the time of these.

    On a deployed stack nobody knows each request: as many are taken as CloudWatch counted in each slot of time, up to a
    million, spread over the keys of the table by what their rows remember.
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
    trace, setup = _trace(requests), setup_of(source.parameters)
    is_complete = len(requests) >= measured.reads
    first_us = min(at_us for at_us, _, _ in requests)
    since_us = min(first_us, measured.since_us) if is_complete else first_us
    period_us = max(rows.at_us - since_us, 1)
    demand = demand_of(trace, object_bytes=setup.object_bytes, period_us=period_us)
    locality = locality_of(trace, object_bytes=setup.object_bytes, period_us=period_us)
    comparison = Comparison(demand, locality, source.prices, setup)
    cheapest: dict[str, Any] = {}
    for offer in comparison.of_offers():
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
    """Return the newest requests, evenly within each slot of time, each key as often as its row's window suggests."""
    keys = [(row.key, row.size_bytes) for row in rows.keys for _ in range(max(1, len(row.window)))]
    if not keys:
        return []
    requests, number = [], 0
    for start_s, counts in reversed(measured.series):
        count = sum(counts.values())
        for place in range(max(0, count - (_MOST_SPREAD - number)), count):
            # A step that shares no divisor with most lengths visits all keys before it begins anew.
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
