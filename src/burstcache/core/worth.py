"""The worth of a hit in each tier of a stack, from a price sheet, configured sizes and the value of a saved wait.

Amounts are exact fractions, so that a simulation derives the same numbers as the live system.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal

from burstcache.core.errors import InvalidSettingError, PriceMissingError
from burstcache.core.latency import FIRST_BYTE_MS, Tier
from burstcache.core.node_kinds import fallback_name, node_items
from burstcache.core.parameters import US_PER_S
from burstcache.core.prices import BYTES_PER_GB, SHEETS, PriceSheet, price_sheet

Below = Literal["express", "s3"]  # the tier of a read that misses memory, the cache function and Redis

MICRO = 1_000_000  # weights are counted in millionths
# Counted share of Redis's saving above S3 Express. Source:
# `docs/understand/decisions/reads.md`, "Policies: boot and stop decisions".
_COUNTED_ABOVE_EXPRESS = Fraction(1, 2)

_OTHER_REGIONS = "today-us-east-1"  # for regions without a sheet, and for prices that a region's sheet lacks
_MB_PER_GB = 1024
# Step Functions transitions for a node's run with its first check, for a further check, and for a key's life in a cache
# function. Lambda and DynamoDB add less than one transition to each.
_RUN_TRANSITIONS = 6
_CHECK_TRANSITIONS = 3
_LIFE_TRANSITIONS = 4
# Cost of one report: the scheduler's time, and its reads and writes of the node's row and use item.
_REPORT_GB_S = Fraction(20 * 256, 1000 * _MB_PER_GB)
_REPORT_READS, _REPORT_WRITES = 2, 1


@dataclass(frozen=True, slots=True)
class TierPrices:
    """The prices of a stack's tiers [USD]."""

    s3_get_usd: Fraction
    redis_usd_per_s: Fraction
    lambda_usd_per_s: Fraction
    life_usd: Fraction = Fraction(0)  # fixed price of a key's life in a cache function, excluding the function's time
    run_usd: Fraction = Fraction(0)  # fixed price of a node's run: boot, first check and stop, without the node's time
    check_usd: Fraction = Fraction(0)  # price of each further check of a running node
    report_usd: Fraction = Fraction(0)  # one report of any size: event, scheduler, the node's rows
    has_express: bool = False
    express_get_usd: Fraction = Fraction(0)
    express_usd_per_byte: Fraction = Fraction(0)
    on_demand_usd_per_s: Fraction = Fraction(0)  # of a node that Spot refused; 0 if the stack asks for no Spot

    def node_usd_per_s(self, task_kind: str = "") -> Fraction:
        """Return the price of a node's time [USD], by the kind of its task (`core.rows.NodeRow`)."""
        is_fallback = task_kind == "fargate" and self.on_demand_usd_per_s
        return self.on_demand_usd_per_s if is_fallback else self.redis_usd_per_s

    def node_usd(self, ran_us: int, task_kind: str = "") -> Fraction:
        """Return the price of a node's run, including boot and stop [USD]."""
        return self.run_usd + Fraction(ran_us, US_PER_S) * self.node_usd_per_s(task_kind)

    def cache_usd(self, ran_us: int) -> Fraction:
        """Return the price of a cache function's time, excluding the life's fixed price [USD]."""
        return Fraction(ran_us, US_PER_S) * self.lambda_usd_per_s

    def read_usd(self, tier: Tier, size_bytes: int) -> Fraction:
        """Return the price of one read from a tier [USD]."""
        if tier == "s3":
            return self.s3_get_usd
        return self.express_get_usd + size_bytes * self.express_usd_per_byte if tier == "express" else Fraction(0)


@dataclass(frozen=True, slots=True)
class Worth:
    """The worth of hits in one stack."""

    wait_usd: Fraction  # value of one full wait for S3, `HitValueUsdPerMillion`
    prices: TierPrices

    def __hash__(self) -> int:
        """Hash integers only. Hashing the fractions of all prices would take longer than most decisions."""
        return hash((self.wait_usd.numerator, self.wait_usd.denominator, self.prices.redis_usd_per_s.numerator))

    def saved_usd(self, tier: Tier, below: Below = "s3", size_bytes: int = 0) -> Fraction:
        """Return the saving of a hit in a tier, excluding the tier's running cost, negative for a loss [USD].

        Args:
            tier: Tier of the hit.
            below: Tier that would have served the read otherwise.
            size_bytes: The object's size, since S3 Express charges for bytes read [bytes].
        """
        waits = Fraction(FIRST_BYTE_MS[below] - FIRST_BYTE_MS[tier], FIRST_BYTE_MS["s3"])
        return self.wait_usd * waits + self.prices.read_usd(below, size_bytes) - self.prices.read_usd(tier, size_bytes)

    @property
    def hit_usd(self) -> Fraction:
        """The saving of a hit in Redis or a cache function over S3 alone, > 0 [USD]."""
        return self.saved_usd("redis")

    def below(self, size_bytes: int) -> Below:
        """Return the tier that would serve a frequently read object without Redis."""
        pays = self.prices.has_express and self.saved_usd("express", size_bytes=size_bytes) > 0
        return "express" if pays else "s3"

    def weight(self, below: Below, size_bytes: int) -> int:
        """Return the weight of a hit in Redis, compared with `below`, rounded down [millionths]."""
        return MICRO if below == "s3" else int(self.weight_above_express(size_bytes))

    def weight_above_express(self, size_bytes: int) -> Fraction:
        """Return the counted saving of Redis over a copy in S3 Express, as a share of a hit over S3 [millionths]."""
        return MICRO * _COUNTED_ABOVE_EXPRESS * self.saved_usd("redis", "express", size_bytes) / self.hit_usd

    def weight_of(self, size_bytes: int) -> int:
        """Return the weight of a hit on an object of this size, compared with the tier below [millionths]."""
        return self.weight(self.below(size_bytes), size_bytes)


def wait_usd_from_text(per_million: str) -> Fraction:
    """Parse the value of one saved wait from `HitValueUsdPerMillion` [USD].

    Raises:
        InvalidSettingError: The text is not a decimal of at least 0.
    """
    try:
        value = Fraction(per_million) / 1_000_000
    except (ValueError, ZeroDivisionError):
        value = Fraction(-1)
    if value < 0 or "/" in per_million:
        raise InvalidSettingError(f"hit value {per_million!r}: expected USD per million hits, at least 0, such as 10")
    return value


def sheet_of_region(region: str) -> PriceSheet:
    """Return the newest price sheet of a region, or Northern Virginia's if the region has none.

    Policies compare prices with each other, and regions differ much more in price level than in price ratios.
    """
    return next(
        (sheet for sheet in reversed(SHEETS.values()) if sheet.region == region and sheet.name.startswith("today")),
        price_sheet(_OTHER_REGIONS),
    )


def tier_prices(sheet: PriceSheet, *, node_type: str, cache_memory_mb: int, has_express: bool = False) -> TierPrices:
    """Return the prices of a stack's tiers.

    Args:
        sheet: Prices of the region. Northern Virginia's prices replace missing prices.
        node_type: Name of the Redis nodes, such as `t4g.micro` or `fargate-spot:2GB` (`core.node_kinds`).
        cache_memory_mb: Memory of the cache function [MB].
        has_express: Whether objects are copied to S3 Express.

    Raises:
        InvalidSettingError: The node's kind or size is unknown.
        PriceMissingError: No sheet has a price for the node type.
    """
    on_demand = fallback_name(node_type)
    transition_usd = _usd(sheet, "transition")
    return replace(
        reading_prices(sheet, has_express=has_express),
        redis_usd_per_s=node_price_usd_per_h(sheet, node_type) / 3600,
        on_demand_usd_per_s=node_price_usd_per_h(sheet, on_demand) / 3600 if on_demand else Fraction(0),
        lambda_usd_per_s=_lambda_usd_per_gb_s(sheet) * Fraction(cache_memory_mb, _MB_PER_GB),
        life_usd=_LIFE_TRANSITIONS * transition_usd + _usd(sheet, "lambda-request"),
        run_usd=_RUN_TRANSITIONS * transition_usd,
        check_usd=_CHECK_TRANSITIONS * transition_usd,
    )


def node_price_usd_per_h(sheet: PriceSheet, node_type: str) -> Fraction:
    """Return the price of an hour of a node [USD]. Arguments and errors as of `tier_prices`."""
    return sum((units * _usd(sheet, item) for item, units in node_items(node_type)), Fraction(0))


def reading_prices(sheet: PriceSheet, *, has_express: bool) -> TierPrices:
    """Return the prices that a reader compares. Nodes and functions cost 0, since readers do not start or stop them."""
    rows_usd = _REPORT_READS * _usd(sheet, "dynamodb-read") + _REPORT_WRITES * _usd(sheet, "dynamodb-write")
    run_usd = _usd(sheet, "lambda-request") + _REPORT_GB_S * _lambda_usd_per_gb_s(sheet)
    return TierPrices(
        s3_get_usd=_usd(sheet, "s3-get"),
        redis_usd_per_s=Fraction(0),
        lambda_usd_per_s=Fraction(0),
        report_usd=_usd(sheet, "event") + run_usd + rows_usd,
        has_express=has_express,
        express_get_usd=_usd(sheet, "s3-express-get") if has_express else Fraction(0),
        express_usd_per_byte=_usd(sheet, "s3-express-retrieval") / BYTES_PER_GB if has_express else Fraction(0),
    )


def _lambda_usd_per_gb_s(sheet: PriceSheet) -> Fraction:
    return _usd(sheet, f"lambda-duration:{sheet.architecture}")


def _usd(sheet: PriceSheet, item: str) -> Fraction:
    try:
        return sheet.usd(item)
    except PriceMissingError:
        return price_sheet(_OTHER_REGIONS).usd(item)
