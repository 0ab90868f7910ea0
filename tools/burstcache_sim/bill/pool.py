"""A pool's bill: simulated or counted usage, times current prices.

The bill includes the parts around the members: the state machine for warm-ups, the control function, the table and the
hub.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

from burstcache.core.pool.retention import PoolTotals
from burstcache.core.prices import PriceSheet
from burstcache_sim.bill.cost import Amount, Bill, BillLine, bill_line
from burstcache_sim.pool.scenario import PoolRun

CONTROL_MB = 256
# Usage per minute while the reports of one hub keep the pool alive (`burstcache.control.pool_life`).
_CONTROL_REQUESTS = 2  # a report and a round of warm-ups
_CONTROL_MS = 150  # per request, because members are warmed up concurrently
_TRANSITIONS = Fraction(3, 5)  # the machine checks the reports every five minutes, in three states
_ROW_READS, _ROW_WRITES, _MEMBER_BYTES = 3, 4, 150  # all members are in one row
HUB_VCPU, HUB_GB = Fraction(1, 2), Fraction(1)  # on Fargate Spot, as in template.yaml


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolUse:
    """Usage of a pool in billed units."""

    serve_gb_s: Amount = 0
    serve_requests: Amount = 0
    warm_gb_s: Amount = 0
    warm_requests: Amount = 0
    backup_gb_s: Amount = 0
    backup_requests: Amount = 0
    environments_gb: Amount = 0  # memory of all environments ever started
    control_gb_s: Amount = 0
    control_requests: Amount = 0
    transitions: Amount = 0
    row_reads: Amount = 0
    row_writes: Amount = 0
    hub_vcpu_h: Amount = 0
    hub_gb_h: Amount = 0
    s3_gets: Amount = 0


_DURATION, _REQUEST = "lambda-duration:{architecture}", "lambda-request"
_BILLED: dict[str, tuple[str, str, bool]] = {  # price, text, whether billed without reads
    "serve_gb_s": (_DURATION, "members, serving", False),
    "serve_requests": (_REQUEST, "members, serving, invocations", False),
    "warm_gb_s": (_DURATION, "members, warm-up", True),
    "warm_requests": (_REQUEST, "members, warm-up, invocations", True),
    "backup_gb_s": (_DURATION, "members, backup", True),
    "backup_requests": (_REQUEST, "members, backup, invocations", True),
    "environments_gb": ("lambda-tenant", "members, new environments", True),
    "control_gb_s": (_DURATION, "control, duration", True),
    "control_requests": (_REQUEST, "control, invocations", True),
    "transitions": ("transition", "Step Functions", True),
    "row_reads": ("dynamodb-read", "DynamoDB reads", True),
    "row_writes": ("dynamodb-write", "DynamoDB writes", True),
    "hub_vcpu_h": ("fargate-spot-vcpu:arm", "hub, processor", True),
    "hub_gb_h": ("fargate-spot-memory:arm", "hub, memory", True),
    "s3_gets": ("s3-get", "S3 GET of missed slices", False),
}


def pool_use(run: PoolRun, *, has_fargate_hub: bool = False, only_members: bool = False) -> PoolUse:
    """Return the usage of a simulated run.

    Args:
        run: The run.
        has_fargate_hub: Whether the hub is a separate task rather than part of the readers' process.
        only_members: Whether to leave out the parts around the members, as InfiniCache's bill does.
    """
    total, memory_gb = run.total, Fraction(run.scenario.memory_mb, 1024)
    hours = Fraction(run.period_us, 3_600_000_000) if has_fargate_hub else Fraction(0)

    def gb_s(duration_ms: float) -> Fraction:
        return memory_gb * Fraction(round(duration_ms), 1000)

    members = PoolUse(
        serve_gb_s=gb_s(total.serve_ms),
        serve_requests=total.serve_invocations,
        warm_gb_s=gb_s(total.warm_up_ms),
        warm_requests=total.warm_ups,
        backup_gb_s=gb_s(total.backup_ms),
        backup_requests=total.backups,
    )
    if only_members:
        return members
    return replace(
        members,
        environments_gb=memory_gb * total.environments,
        **_control(run.scenario.members, Fraction(total.ticks * run.scenario.warm_s, 60)),
        hub_vcpu_h=HUB_VCPU * hours,
        hub_gb_h=HUB_GB * hours,
        s3_gets=total.slice_reads - total.slice_hits,
    )


def counted_use(totals: PoolTotals, *, members: int, memory_mb: int, minutes: Fraction) -> PoolUse:
    """Return the usage of a live pool from the counts of its hubs and warm-up rounds, to predict its bill.

    Members and pool control measure their own invocations and initialisations. Members report their measurements in
    responses.

    Args:
        totals: The counts. Hub counts include invocations for backup.
        members: Number of members.
        memory_mb: Memory of each member [MB].
        minutes: Time for which the pool was kept alive [min].
    """
    memory_gb = Fraction(memory_mb, 1024)
    return replace(
        control_use(members, minutes),
        control_gb_s=Fraction(CONTROL_MB, 1024) * Fraction(totals.control_ms, 1000),
        control_requests=totals.control_requests,
        serve_gb_s=memory_gb * Fraction(totals.served_ms, 1000),
        serve_requests=totals.invocations,
        warm_gb_s=memory_gb * Fraction(totals.warm_ms, 1000),
        warm_requests=totals.warm_ups,
        environments_gb=memory_gb * totals.environments,
        s3_gets=totals.requests - totals.hits,
    )


def control_use(members: int, minutes: Fraction) -> PoolUse:
    """Return the usage of keeping a pool alive for some minutes, excluding members and hub."""
    return PoolUse(**_control(members, minutes))


def pool_bill(use: PoolUse, prices: PriceSheet) -> Bill:
    """Return the bill of a pool's usage. Raises `PriceMissingError`."""
    return Bill(prices.name, tuple(_lines(use, prices)))


def _lines(use: PoolUse, prices: PriceSheet) -> list[BillLine]:
    return [
        bill_line(prices, price.format(architecture=prices.architecture), quantity, text, is_fixed=is_fixed)
        for name, (price, text, is_fixed) in _BILLED.items()
        if (quantity := getattr(use, name))
    ]


def _control(members: int, minutes: Fraction) -> dict[str, Amount]:
    requests = _CONTROL_REQUESTS * minutes
    return {
        "control_requests": requests,
        "control_gb_s": Fraction(CONTROL_MB, 1024) * Fraction(_CONTROL_MS, 1000) * requests,
        "transitions": _TRANSITIONS * minutes,
        "row_reads": _ROW_READS * minutes,
        "row_writes": (_ROW_WRITES - (-members * _MEMBER_BYTES // 1024)) * minutes,
    }
