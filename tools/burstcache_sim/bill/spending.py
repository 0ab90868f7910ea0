"""What a simulated run costs with any price sheet: the cache alone, its function with 1 GB, as the thesis counts."""

from __future__ import annotations

from fractions import Fraction

from burstcache.core.breakeven import BreakevenPrices
from burstcache.core.prices import PriceSheet
from burstcache_sim.bill.cost import Usage, bill
from burstcache_sim.policies.offline import OfflineResult
from burstcache_sim.world.result import RunResult

# The first of them that the sheet knows: the thesis's node, and the template's.
_INSTANCE_TYPES = ("t2.micro", "t4g.micro")


def instance_type(prices: PriceSheet) -> str:
    """Return the node that a sheet's runs are billed for."""
    known = prices.kinds("ec2:")
    return next((name for name in _INSTANCE_TYPES if name in known), _INSTANCE_TYPES[-1])


def weighed(prices: PriceSheet) -> BreakevenPrices:
    """Return what the break-even policy weighs a hit against."""
    return BreakevenPrices(
        lambda_usd_per_s=prices.usd(f"lambda-duration:{prices.architecture}"),
        redis_usd_per_s=prices.usd(f"ec2:{instance_type(prices)}") / 3600,
        s3_get_usd=prices.usd("s3-get"),
    )


def run_usd(result: RunResult, prices: PriceSheet) -> float:
    """Return what a run's cache function, its node and its S3 requests cost [USD]."""
    usage = Usage(
        architecture=prices.architecture,
        instance_type=instance_type(prices),
        cache_gb_s=Fraction(result.lambda_ms, 1_000),
        cache_requests=result.invocations,
        node_h=Fraction(result.redis_s, 3_600),
        s3_gets=result.s3_requests,
    )
    return bill(usage, prices, only_cache=True).usd


def offline_usd(result: OfflineResult, prices: PriceSheet) -> float:
    """Return what the offline algorithm's running times cost; like the thesis it bills no request [USD]."""
    usage = Usage(
        architecture=prices.architecture,
        instance_type=instance_type(prices),
        cache_gb_s=Fraction(result.lambda_us, 1_000_000),
        node_h=Fraction(result.redis_us, 3_600_000_000),
    )
    return bill(usage, prices, only_cache=True).usd
