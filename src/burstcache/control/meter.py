"""A meter that publishes the running time and the cost of cache functions and nodes as metrics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from burstcache.core.parameters import US_PER_S
from burstcache.core.worth import TierPrices, sheet_of_region, tier_prices
from burstcache.metrics import COST_USD, LIVES, NODE_SECONDS, PROMOTIONS, put


class Sizes(Protocol):
    """The settings that determine prices."""

    @property
    def region(self) -> str: ...
    @property
    def node_type(self) -> str: ...
    @property
    def cache_memory_mb(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Meter:
    """A meter that uses the list prices of a stack's region and ignores the free tier."""

    prices: TierPrices

    def node_ran(self, since_us: int, until_us: int, task_kind: str = "") -> None:
        """Count the running time of a node. A start of 0 means unknown, and nothing is counted.

        A task that runs on demand, since Spot had no capacity, costs the price on demand.
        """
        if 0 < since_us < until_us:
            ran_s = (until_us - since_us) / US_PER_S
            put((NODE_SECONDS, ran_s))
            put((COST_USD, ran_s * float(self.prices.node_usd_per_s(task_kind))), Tier="redis")

    def cache_ran(self, end: str, ran_us: int) -> None:
        """Count a run of the cache function, and its life's outcome unless the life was handed over."""
        if end != "handed_over":
            put((LIVES, 1), Outcome={"stopped": "promoted"}.get(end, end))
        put((COST_USD, ran_us / US_PER_S * float(self.prices.lambda_usd_per_s)), Tier="lambda")

    def promoted(self) -> None:
        """Count a key that was promoted to Redis."""
        put((PROMOTIONS, 1))

    def left_redis(self, *, is_failed: bool) -> None:
        """Count a life that ended in Redis, or on its way to Redis."""
        put((LIVES, 1), Outcome="failed" if is_failed else "left_redis")


def meter_of(sizes: Sizes, node: str = "") -> Meter:
    """Return the meter for `sizes`, or for a node of another kind than theirs."""
    sheet = sheet_of_region(sizes.region)
    return Meter(tier_prices(sheet, node_type=node or sizes.node_type, cache_memory_mb=sizes.cache_memory_mb))
