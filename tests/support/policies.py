"""Live policies with the usual settings."""

from __future__ import annotations

from burstcache.core.parameters import parameters_from_text
from burstcache.core.policies import POLICIES, LivePolicy, live_policy
from burstcache.core.prices import price_sheet
from burstcache.core.worth import Worth, tier_prices, wait_usd_from_text

THESIS = {"Policy": "thesis"}  # stack parameters for tests of leased keys, whose durations can be overridden
BY_USE = tuple(name for name, rules in POLICIES.items() if rules is not None)

# Policy settings of a stack: the variables of `PolicySettings`.
DECIDES_BY = {
    "AWS_REGION": "us-east-1",
    "REDIS_NODES": "node-1=i-1@10.0.0.5:6379",
    "REDIS_ALWAYS_ON_NODES": "0",
    "MAX_HOT_KEYS": "2",
    "HAS_RELAY": "true",
    "MAX_OBJECT_BYTES": "4194304",
    "EXPRESS_BUCKET": "",
    "POLICY": "breakeven",
    "HIT_VALUE_USD_PER_MILLION": "10",
    "REDIS_INSTANCE_TYPE": "t4g.micro",
    "CACHE_MEMORY_MB": "256",
    "POLICY_RATE": "9",
    "POLICY_SENSITIVITY": "4",
    "POLICY_OVERRIDES": "",
    "MEMORY_MB": "0",
    "POOL_MEMBERS": "0",
}


def policy_named(
    name: str, *, per_million: str = "100", node_type: str = "t4g.micro", has_express: bool = False
) -> LivePolicy:
    """Return a policy by its name. By default a hit is worth $0.0001, so 1.4 hits a minute pay for the node."""
    prices = tier_prices(
        price_sheet("today-us-east-1"), node_type=node_type, cache_memory_mb=256, has_express=has_express
    )
    worth = Worth(wait_usd_from_text(per_million), prices)
    return live_policy(name, parameters_from_text(rate="9", sensitivity="4"), lambda: worth)
