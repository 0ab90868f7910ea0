"""A pool's costs per hour, by InfiniCache's formulas 4 to 6 and Lambda's later price for tenants.

Source:
    Wang 2020, section 4.3, formulas 4 to 6. AWS Lambda's price for a tenant's new environment dates from 2025.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from burstcache.core.prices import PriceSheet


@dataclass(frozen=True, slots=True)
class MemberPrice:
    """The price of a member. In the paper, functions were billed in steps of 100 ms and had no tenants."""

    memory_gb: Fraction
    request_usd: Fraction
    gb_s_usd: Fraction
    tenant_gb_usd: Fraction = Fraction(0)
    billed_in_ms: int = 1

    def invocations_usd(self, count: Fraction | int, duration_ms: Fraction | int) -> Fraction:
        """Return the cost of invocations of one kind [USD]. Formulas 4 to 6 apply it to three kinds of invocations."""
        billed_ms = -(-Fraction(duration_ms) // self.billed_in_ms) * self.billed_in_ms
        return count * (self.request_usd + Fraction(billed_ms, 1000) * self.memory_gb * self.gb_s_usd)

    @property
    def environment_usd(self) -> Fraction:
        """The price of a tenant's new environment [USD]."""
        return self.memory_gb * self.tenant_gb_usd


@dataclass(frozen=True, slots=True)
class PoolHour:
    """The cost of one hour, excluding hub and control [USD]."""

    serving_usd: Fraction
    warm_up_usd: Fraction
    backup_usd: Fraction
    renewal_usd: Fraction = Fraction(0)  # new environments that replace reclaimed environments

    @property
    def upkeep_usd(self) -> Fraction:
        """The cost of keeping data alive, without any reads."""
        return self.warm_up_usd + self.backup_usd + self.renewal_usd

    @property
    def usd(self) -> Fraction:
        """The total: C = C_ser + C_w + C_bak, plus new environments."""
        return self.serving_usd + self.upkeep_usd


def member_price(prices: PriceSheet, memory_mb: int) -> MemberPrice:
    """Return the price of a member with `memory_mb` of memory, from a price sheet.

    Raises:
        PriceMissingError: The sheet has no price for Lambda or its tenants.
    """
    return MemberPrice(
        memory_gb=Fraction(memory_mb, 1024),
        request_usd=prices.usd("lambda-request"),
        gb_s_usd=prices.usd(f"lambda-duration:{prices.architecture}"),
        tenant_gb_usd=prices.usd("lambda-tenant"),
    )
