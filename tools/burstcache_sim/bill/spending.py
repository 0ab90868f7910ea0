"""Spending of a simulated run by the thesis's rules (cache function, node, S3), and a policy's prices."""

from __future__ import annotations

from fractions import Fraction

from burstcache.core.node_kinds import node_usd_per_h
from burstcache.core.parameters import US_PER_S
from burstcache.core.prices import THESIS, PriceSheet
from burstcache.core.worth import TierPrices, tier_prices
from burstcache_sim.bill.cost import Usage, bill
from burstcache_sim.bill.setup import Setup
from burstcache_sim.bill.usage import THESIS_MEMORY_MB, thesis_usage
from burstcache_sim.policies.offline import OfflineResult
from burstcache_sim.units import US_PER_H
from burstcache_sim.world.result import RunResult

# The first type with a price is used: the thesis's node, or else the template's.
_INSTANCE_TYPES = ("t2.micro", "t4g.micro")


def instance_type(prices: PriceSheet) -> str:
    """Return the instance type for runs billed by a sheet."""
    priced = prices.kinds("ec2:")
    return next((name for name in _INSTANCE_TYPES if name in priced), _INSTANCE_TYPES[-1])


def thesis_setup(prices: PriceSheet) -> Setup:
    """Return the thesis's deployment for a sheet: a cache function with 1 GB and a micro node."""
    return Setup(
        architecture=prices.architecture, instance_type=instance_type(prices), cache_memory_mb=THESIS_MEMORY_MB
    )


def policy_prices(prices: PriceSheet, setup: Setup) -> TierPrices:
    """Return the prices for a policy's decisions. With the thesis's prices, the control plane is free."""
    if prices.name != THESIS:
        return tier_prices(
            prices,
            node_type=setup.node_name,
            cache_memory_mb=setup.cache_memory_mb,
            has_express=setup.express,
        )
    return TierPrices(
        s3_get_usd=prices.usd("s3-get"),
        redis_usd_per_s=node_usd_per_h(prices, setup.node_name) / 3600,
        lambda_usd_per_s=prices.usd(f"lambda-duration:{setup.architecture}") * Fraction(setup.cache_memory_mb, 1024),
    )


def run_usd(result: RunResult, prices: PriceSheet, setup: Setup | None = None) -> float:
    """Return the cost of a run's cache function, node and S3 requests, by default in the thesis's setup [USD]."""
    return bill(thesis_usage(result, setup or thesis_setup(prices)), prices, only_cache=True).usd


def offline_usd(result: OfflineResult, prices: PriceSheet) -> float:
    """Return the cost of the offline algorithm's running times [USD]. As in the thesis, requests are free."""
    return bill(offline_usage(result, thesis_setup(prices)), prices, only_cache=True).usd


def offline_usage(result: OfflineResult, setup: Setup) -> Usage:
    """Return the billed usage of the offline algorithm's running times."""
    return Usage(
        architecture=setup.architecture,
        node_name=setup.node_name,
        cache_gb_s=Fraction(result.lambda_us * setup.cache_memory_mb, 1024 * US_PER_S),
        node_h=Fraction(result.redis_us, US_PER_H),
    )
