"""What AWS gives away every month, for ever and to every account, and CloudFront's flat-rate plans.

Free tiers of an account's first year are not counted. All of an allowance is taken for this log, as if nothing else in
the account used it.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from burstcache.core.prices import UNCHECKED
from burstcache_sim.bill.cost import Bill

_GB_PER_TB = 1024


@dataclass(frozen=True, slots=True)
class Allowance:
    """So much of some items is free each month."""

    items: tuple[str, ...]  # of a price sheet; they share it
    quantity: int
    source: str


@dataclass(frozen=True, slots=True)
class Plan:
    """A flat-rate plan of CloudFront: everything that it meters, up to a limit.

    It also brings a credit for storage in S3 Standard, which is not deducted: no bill has the bucket's own storage.
    """

    name: str
    usd: int  # a month
    requests: int
    transfer_gb: int
    s3_storage_gb: int


ALLOWANCES = (
    Allowance(("lambda-request",), 1_000_000, "AWS Lambda pricing page, copy of 2026"),
    Allowance(("lambda-duration:arm", "lambda-duration:x86"), 400_000, "AWS Lambda pricing page, copy of 2026"),
    Allowance(("transition",), 4_000, f"AWS Step Functions pricing page, {UNCHECKED}"),
    Allowance(("logs",), 5, f"Amazon CloudWatch pricing page, {UNCHECKED}"),
    Allowance(("metric",), 10 * 730, "api-evangelist/cloudwatch, price page of 2026-05"),
    Allowance(("internet-transfer",), 100, "wring.co, AWS data transfer pricing 2026"),
    Allowance(("cloudfront-transfer",), _GB_PER_TB, "bybowu.com on CloudFront's prices, 2025-11"),
    Allowance(("cloudfront-request",), 10_000_000, "bybowu.com on CloudFront's prices, 2025-11"),
)

# Since 2025-11-18, for one domain; duckbillhq.com, 2026-01, and finops.com.py have the same figures. The credits:
# bybowu.com, 2025-11.
PLANS = (
    Plan("Free", 0, 1_000_000, 100, 5),
    Plan("Pro", 15, 10_000_000, 50 * _GB_PER_TB, 50),
    Plan("Business", 200, 125_000_000, 50 * _GB_PER_TB, _GB_PER_TB),
    Plan("Premium", 1_000, 500_000_000, 50 * _GB_PER_TB, 5 * _GB_PER_TB),
)


def free_usd(month: Bill) -> tuple[Fraction, str]:
    """Return a month's bill after allowances or with the cheapest plan, and the plan's name if there is one [USD]."""
    deducted = month.usd_exact - sum((_worth(month, allowance) for allowance in ALLOWANCES), Fraction(0))
    plan = _fitting(month)
    if plan is None:
        return deducted, ""
    rest = Bill(month.sheet, tuple(line for line in month.lines if not line.item.startswith("cloudfront-")))
    planned = free_usd(rest)[0] + plan.usd
    return (planned, plan.name) if planned < deducted else (deducted, "")


def _worth(month: Bill, allowance: Allowance) -> Fraction:
    """Return what a bill would be lower by [USD]."""
    left, usd = Fraction(allowance.quantity), Fraction(0)
    for line in month.lines:
        if line.item in allowance.items and line.quantity:
            taken = min(left, line.quantity)
            usd += line.usd_exact * taken / line.quantity
            left -= taken
    return usd


def _fitting(month: Bill) -> Plan | None:
    """Return the cheapest plan whose limits a month keeps; None without CloudFront, or if it keeps none."""
    used = {line.item: line.quantity for line in month.lines}
    if "cloudfront-request" not in used:
        return None
    requests, transfer_gb = used["cloudfront-request"], used.get("cloudfront-transfer", Fraction(0))
    return next((plan for plan in PLANS if requests <= plan.requests and transfer_gb <= plan.transfer_gb), None)
