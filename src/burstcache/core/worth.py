"""What a hit is worth in each tier of one stack: by a price sheet, the configured sizes and the value of a saved wait.

Money is exact (fractions), so that everything derived from it is the same in the live system and in a simulation.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal

from burstcache.core.errors import InvalidSettingError, PriceMissingError
from burstcache.core.parameters import US_PER_S
from burstcache.core.prices import BYTES_PER_GB, SHEETS, PriceSheet, price_sheet

Rung = Literal["redis", "lambda", "express", "s3"]
Below = Literal["express", "s3"]  # what serves a read that neither memory, a cache function nor Redis does

# What a reader waits for a small object; all of S3's is what a hit is valued by.
WAIT_MS: dict[Rung, int] = {"redis": 1, "lambda": 1, "express": 5, "s3": 50}
MICRO = 1_000_000  # weights are counted in millionths

_OTHER_REGIONS = "today-us-east-1"  # prices for a region without a sheet, or that its sheet leaves out
_MB_PER_GB = 1024
# Control of one run of a node with its first look, of a further look, and of a key's life in a cache function, all in
# transitions of Step Functions: what functions and the table add is a fraction of one.
_RUN_TRANSITIONS = 6
_LOOK_TRANSITIONS = 3
_LIFE_TRANSITIONS = 4
# Of one report: the scheduler's time, and the rows of the node and of its use.
_REPORT_GB_S = Fraction(20 * 256, 1000 * _MB_PER_GB)
_REPORT_READS, _REPORT_WRITES = 2, 1


@dataclass(frozen=True, slots=True)
class TierPrices:
    """What the tiers of one stack cost [USD]."""

    s3_get_usd: Fraction
    redis_usd_per_s: Fraction
    lambda_usd_per_s: Fraction
    life_usd: Fraction = Fraction(0)  # of a key in a cache function: what it costs apart from the function's time
    run_usd: Fraction = Fraction(0)  # of a node: what its boot, first look and stop cost apart from the node itself
    look_usd: Fraction = Fraction(0)  # what each further look at a running node costs
    report_usd: Fraction = Fraction(0)  # of what no node served, however much: event, scheduler, the node's rows
    has_express: bool = False
    express_get_usd: Fraction = Fraction(0)
    express_usd_per_byte: Fraction = Fraction(0)

    def node_usd(self, ran_us: int) -> Fraction:
        """Return what one run of a node costs, boot and stop included [USD]."""
        return self.run_usd + Fraction(ran_us, US_PER_S) * self.redis_usd_per_s

    def cache_usd(self, ran_us: int) -> Fraction:
        """Return what a cache function costs, apart from the life that it belongs to [USD]."""
        return Fraction(ran_us, US_PER_S) * self.lambda_usd_per_s

    def read_usd(self, rung: Rung, size_bytes: int) -> Fraction:
        """Return what one read costs where the object is [USD]."""
        if rung == "s3":
            return self.s3_get_usd
        return self.express_get_usd + size_bytes * self.express_usd_per_byte if rung == "express" else Fraction(0)


@dataclass(frozen=True, slots=True)
class Worth:
    """What hits are worth in one stack."""

    wait_usd: Fraction  # what one saved wait for S3 is worth
    prices: TierPrices

    def __hash__(self) -> int:
        """Return a hash of integers: that of a fraction, of which prices are made, takes longer than most decisions."""
        return hash((self.wait_usd.numerator, self.wait_usd.denominator, self.prices.redis_usd_per_s.numerator))

    def saved_usd(self, tier: Rung, below: Below = "s3", size_bytes: int = 0) -> Fraction:
        """Return what a hit in a tier saves, its running costs apart; below 0 if it loses [USD].

        Args:
            tier: Where the hit is.
            below: What would have served it otherwise.
            size_bytes: The object's size: Express charges for what is read [bytes].
        """
        waits = Fraction(WAIT_MS[below] - WAIT_MS[tier], WAIT_MS["s3"])
        return self.wait_usd * waits + self.prices.read_usd(below, size_bytes) - self.prices.read_usd(tier, size_bytes)

    @property
    def hit_usd(self) -> Fraction:
        """What a hit in Redis or a cache function saves above bare S3, > 0 [USD]."""
        return self.saved_usd("redis")

    def below(self, size_bytes: int) -> Below:
        """Return what would serve an object that is asked for again and again, if Redis did not."""
        pays = self.prices.has_express and self.saved_usd("express", size_bytes=size_bytes) > 0
        return "express" if pays else "s3"

    def weight(self, below: Below, size_bytes: int) -> int:
        """Return what Redis saves for a read as a share of what it saves above bare S3, rounded down [millionths]."""
        return MICRO if below == "s3" else int(MICRO * self.saved_usd("redis", below, size_bytes) / self.hit_usd)

    def weight_of(self, size_bytes: int) -> int:
        """Return the weight of an object's hits, above what would serve them [millionths]."""
        return self.weight(self.below(size_bytes), size_bytes)


def wait_usd_from_text(per_million: str) -> Fraction:
    """Return what one saved wait is worth, from the text of `HitValueUsdPerMillion` [USD].

    Raises:
        InvalidSettingError: It is not a decimal of at least 0.
    """
    try:
        value = Fraction(per_million) / 1_000_000
    except (ValueError, ZeroDivisionError):
        value = Fraction(-1)
    if value < 0 or "/" in per_million:
        raise InvalidSettingError(f"hit value {per_million!r}: expected USD per million hits, at least 0, such as 10")
    return value


def sheet_of_region(region: str) -> PriceSheet:
    """Return the newest sheet of a region's prices; Northern Virginia's for a region that has none.

    Policies weigh prices against each other, and regions differ in their level much more than in their ratios.
    """
    return next(
        (sheet for sheet in reversed(SHEETS.values()) if sheet.region == region and sheet.name.startswith("today")),
        price_sheet(_OTHER_REGIONS),
    )


def tier_prices(sheet: PriceSheet, *, node_type: str, cache_memory_mb: int, has_express: bool = False) -> TierPrices:
    """Return what the tiers of a stack cost.

    Args:
        sheet: Prices of the region. What it leaves out is taken from Northern Virginia's.
        node_type: EC2 type of the Redis nodes, such as `t4g.micro`.
        cache_memory_mb: Memory of the cache function [MB].
        has_express: Whether objects are copied to S3 Express.

    Raises:
        PriceMissingError: No sheet has a price for the node type.
    """
    transition_usd = _usd(sheet, "transition")
    return replace(
        reading_prices(sheet, has_express=has_express),
        redis_usd_per_s=_usd(sheet, f"ec2:{node_type}") / 3600,
        lambda_usd_per_s=_lambda_usd_per_gb_s(sheet) * Fraction(cache_memory_mb, _MB_PER_GB),
        life_usd=_LIFE_TRANSITIONS * transition_usd + _usd(sheet, "lambda-request"),
        run_usd=_RUN_TRANSITIONS * transition_usd,
        look_usd=_LOOK_TRANSITIONS * transition_usd,
    )


def reading_prices(sheet: PriceSheet, *, has_express: bool) -> TierPrices:
    """Return what a reader weighs, which knows neither nodes nor cache functions: these cost nothing here."""
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
