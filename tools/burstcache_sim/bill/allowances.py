"""AWS's permanent monthly allowances for every account, and CloudFront's flat-rate plans.

First-year free tiers are excluded. The log gets the whole allowance, as if it were the account's only load.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from burstcache.core.prices import UNCHECKED
from burstcache_sim.bill.cost import Bill

_GB_PER_TB = 1024


@dataclass(frozen=True, slots=True)
class Allowance:
    """A free monthly quantity that some items share."""

    items: tuple[str, ...]  # price sheet items that share the quantity
    quantity: int
    source: str


@dataclass(frozen=True, slots=True)
class CloudFrontPlan:
    """A CloudFront flat-rate plan, which covers all metered items up to a limit.

    The plan's S3 Standard storage credit is ignored because no bill includes the bucket's own storage.
    """

    name: str
    usd: int  # per month
    requests: int
    transfer_gb: int
    s3_storage_gb: int


ALLOWANCES = (
    Allowance(("lambda-request",), 1_000_000, "AWS Lambda pricing page, copy of 2026"),
    Allowance(("lambda-duration:arm", "lambda-duration:x86"), 400_000, "AWS Lambda pricing page, copy of 2026"),
    Allowance(("sqs-request",), 1_000_000, "cloudburn.io 2026-03, FIFO and standard queues together"),
    Allowance(("transition",), 4_000, f"AWS Step Functions pricing page, {UNCHECKED}"),
    Allowance(("logs",), 5, f"Amazon CloudWatch pricing page, {UNCHECKED}"),
    Allowance(("metric",), 10 * 730, "api-evangelist/cloudwatch, price page of 2026-05"),
    Allowance(("internet-transfer",), 100, "wring.co, AWS data transfer pricing 2026"),
    Allowance(("cloudfront-transfer",), _GB_PER_TB, "bybowu.com on CloudFront's prices, 2025-11"),
    Allowance(("cloudfront-request",), 10_000_000, "bybowu.com on CloudFront's prices, 2025-11"),
)

# Offered since 2025-11-18, per domain. Both duckbillhq.com (2026-01) and finops.com.py list these figures. Storage
# credits: bybowu.com, 2025-11.
PLANS = (
    CloudFrontPlan("Free", 0, 1_000_000, 100, 5),
    CloudFrontPlan("Pro", 15, 10_000_000, 50 * _GB_PER_TB, 50),
    CloudFrontPlan("Business", 200, 125_000_000, 50 * _GB_PER_TB, _GB_PER_TB),
    CloudFrontPlan("Premium", 1_000, 500_000_000, 50 * _GB_PER_TB, 5 * _GB_PER_TB),
)


def free_usd(month: Bill) -> tuple[Fraction, str]:
    """Return a month's lowest cost after allowances [USD], and its CloudFront plan's name (empty: no plan)."""
    deducted = month.usd_exact - sum((_deduction(month, allowance) for allowance in ALLOWANCES), Fraction(0))
    plan = _cheapest_plan(month)
    if plan is None:
        return deducted, ""
    other_items = Bill(month.sheet, tuple(line for line in month.lines if not line.item.startswith("cloudfront-")))
    planned = free_usd(other_items)[0] + plan.usd
    return (planned, plan.name) if planned < deducted else (deducted, "")


def _deduction(month: Bill, allowance: Allowance) -> Fraction:
    """Return the amount by which an allowance reduces a bill [USD]."""
    left, usd = Fraction(allowance.quantity), Fraction(0)
    for line in month.lines:
        if line.item in allowance.items and line.quantity:
            taken = min(left, line.quantity)
            usd += line.usd_exact * taken / line.quantity
            left -= taken
    return usd


def _cheapest_plan(month: Bill) -> CloudFrontPlan | None:
    """Return the cheapest plan that covers the month's usage, or None if no plan does or CloudFront is unused."""
    used = {line.item: line.quantity for line in month.lines}
    if "cloudfront-request" not in used:
        return None
    requests, transfer_gb = used["cloudfront-request"], used.get("cloudfront-transfer", Fraction(0))
    return next((plan for plan in PLANS if requests <= plan.requests and transfer_gb <= plan.transfer_gb), None)
