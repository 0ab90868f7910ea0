"""What else one could buy for the same trace, each with its own bill.

Clients in the same region read all of them directly: no front door of ours, no transfer between regions. A cache that
is asked first and filled on a miss (lazy loading) gets every object from S3 once.

Source:
    Thesis, section 5.1.4 "Comparison Systems"; InfiniCache for its own model.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from burstcache.core.errors import InvalidSettingError, PriceMissingError
from burstcache.core.parameters import US_PER_S
from burstcache.core.prices import PriceSheet
from burstcache_sim.bill.cost import Amount, Bill, BillLine, bill_line
from burstcache_sim.bill.demand import Demand
from burstcache_sim.bill.infinicache import infinicache_hour, pool_for
from burstcache_sim.bill.usage import Setup
from burstcache_sim.units import US_PER_H

_BYTES_PER_GB = 1024**3
_VOLUME_GB = 8  # as the node's of this system
_BYTES_PER_ECPU = 1024
# Serverless bills at least this much memory, whatever is stored.
_SERVERLESS_LEAST_GB = {"valkey": Fraction(1, 10), "redis": Fraction(1)}
_Item = tuple[str, Amount, str]  # price, quantity, text; a `+` before the price marks hourly prices


@dataclass(frozen=True, slots=True)
class Offer:
    """One thing to buy: its cost for the trace's period, and how many requests it serves from memory."""

    name: str
    bill: Bill
    in_memory_pct: float
    note: str = ""


@dataclass(frozen=True, slots=True)
class _Market:
    """A demand, and the prices for it."""

    demand: Demand
    prices: PriceSheet
    setup: Setup
    only_cache: bool

    @property
    def hours(self) -> Fraction:
        return Fraction(self.demand.period_us, US_PER_H)

    def offer(self, name: str, *items: _Item | BillLine, misses: int, note: str = "") -> Offer:
        """Return the offer with a bill of the items and of the objects fetched from S3."""
        lines = [item if isinstance(item, BillLine) else self._line(item) for item in items]
        lines.append(bill_line(self.prices, "s3-get", misses, "S3 GET"))
        hits = self.demand.requests - misses
        return Offer(name, Bill(self.prices.name, tuple(lines)), round(100 * hits / self.demand.requests, 6), note)

    def _line(self, item: _Item) -> BillLine:
        price, quantity, text = item
        return bill_line(self.prices, price.lstrip("+"), quantity, text, is_fixed=price.startswith("+"))


def offers(
    demand: Demand, prices: PriceSheet, setup: Setup, *, names: tuple[str, ...] = (), only_cache: bool = False
) -> list[Offer]:
    """Return what one could buy instead, cheapest first.

    Args:
        demand: What the trace asks for.
        prices: Prices of the region.
        setup: Instance type and processor of this system: its node, always on, is one of the offers.
        names: Names from `offer_names`; if empty, all that the sheet has prices for.
        only_cache: Leave out volumes, as the thesis does.

    Raises:
        InvalidSettingError: There is no offer of that name.
        PriceMissingError: A named offer has no price in the sheet.
    """
    market = _Market(demand, prices, setup, only_cache)
    known = offer_names(prices, setup)
    if strange := [name for name in names if name.partition(":")[0] not in _KINDS]:
        raise InvalidSettingError(f"competitor {strange[0]!r}: expected one of {', '.join(known)}")
    found = []
    for name in names or known:
        try:
            found.append(_make(market, name))
        except PriceMissingError:
            if names:
                raise
    return sorted(found, key=lambda offer: offer.bill.usd_exact)


def offer_names(prices: PriceSheet, setup: Setup) -> list[str]:
    """Return the names of all offers: of instances, one for each type that the sheet has a price for."""
    names = []
    for kind in _KINDS:
        if kind == "perfect-automation":
            names.append(f"{kind}:{setup.instance_type}")
        elif kind in _BY_TYPE:
            names += [f"{kind}:{type_}" for type_ in prices.kinds(_BY_TYPE[kind])]
        else:
            names.append(kind)
    return names


def _make(market: _Market, name: str) -> Offer:
    kind, _, of = name.partition(":")
    return _KINDS[kind](market, of or market.setup.instance_type)


def _s3_only(market: _Market, _: str) -> Offer:
    return market.offer("s3-only", misses=market.demand.requests)


def _ec2(market: _Market, type_: str) -> Offer:
    seconds = -(-market.demand.period_us // US_PER_S)
    items = [(f"+ec2:{type_}", Fraction(max(60, seconds), 3600), f"{type_}, always on")]
    if not market.only_cache:
        items.append(("+ebs-gp3", _VOLUME_GB * market.hours, "volume"))
    return market.offer(f"ec2:{type_}", *items, misses=market.demand.objects, note="self-hosted, always on")


def _perfect_automation(market: _Market, type_: str) -> Offer:
    hours = Fraction(-(-market.demand.perfect_redis_us // US_PER_S), 3600)
    items: list[_Item] = [(f"ec2:{type_}", hours, f"{type_}, while it is needed")]
    if not market.only_cache:
        items.append(("+ebs-gp3", _VOLUME_GB * market.hours, "volume"))
    name = f"perfect-automation:{type_}"
    return market.offer(name, *items, misses=0, note="knows the trace; boots in advance: a bound, nobody sells it")


def _elasticache(engine: str) -> Callable[[_Market, str], Offer]:
    def make(market: _Market, type_: str) -> Offer:
        hours = -(-market.demand.period_us // US_PER_H) or 1
        item = (f"+elasticache-{engine}:{type_}", hours, f"cache.{type_}, {engine}")
        name = f"elasticache-{engine}:{type_}"
        return market.offer(name, item, misses=market.demand.objects, note="billed by the full hour")

    return make


def _serverless(engine: str) -> Callable[[_Market, str], Offer]:
    def make(market: _Market, _: str) -> Offer:
        demand, least_gb = market.demand, _SERVERLESS_LEAST_GB[engine]
        stored_gb = Fraction(demand.stored_bytes, _BYTES_PER_GB)
        # A processing unit is a KB moved, and at least one per request; every object is written once.
        moved = max(demand.requests, -(-demand.body_bytes // _BYTES_PER_ECPU))
        written = max(demand.objects, -(-demand.stored_bytes // _BYTES_PER_ECPU))
        return market.offer(
            f"serverless-{engine}",
            (f"+serverless-memory:{engine}", max(least_gb, stored_gb) * market.hours, "memory"),
            (f"serverless-ecpu:{engine}", moved + written, "processing units"),
            misses=demand.objects,
            note=f"at least {float(least_gb):g} GB",
        )

    return make


def _cloudfront(market: _Market, _: str) -> Offer:
    return market.offer(
        "cloudfront",
        ("cloudfront-transfer", Fraction(market.demand.body_bytes, _BYTES_PER_GB), "transfer to clients"),
        ("cloudfront-request", market.demand.requests, "HTTPS requests"),
        misses=market.demand.objects,
        note="one edge, nothing expires; 1 TB and 10 million requests a month are free and not deducted",
    )


def _lambda_always(market: _Market, _: str) -> Offer:
    memory_gb = Fraction(market.setup.cache_memory_mb, 1024)
    runs = -(-market.demand.period_us // (15 * 60 * US_PER_S)) or 1
    duration = memory_gb * Fraction(market.demand.period_us, US_PER_S)
    return market.offer(
        "lambda-always",
        (f"+lambda-duration:{market.setup.architecture}", duration, "cache function, always on"),
        ("+lambda-request", runs, "invocations, one each 15 minutes"),
        misses=market.demand.invocation_misses,
        note="one function without an end, empty every 15 minutes; without the relay it needs",
    )


def _infinicache(market: _Market, _: str) -> Offer:
    demand, prices, pool = market.demand, market.prices, pool_for(market.demand.stored_bytes)
    request_usd = prices.usd("lambda-request")
    gb_s_usd = prices.usd(f"lambda-duration:{market.setup.architecture}")
    gets_per_h = Fraction(demand.requests * US_PER_H, demand.period_us) if demand.period_us else Fraction(0)
    hour = infinicache_hour(pool, gets_per_h, request_usd=request_usd, gb_s_usd=gb_s_usd)

    def by_formula(text: str, usd_per_h: Fraction, *, is_fixed: bool) -> BillLine:
        return BillLine(text, market.hours, "h", usd_per_h * market.hours, is_fixed, "Wang 2020, section 4.3")

    return market.offer(
        "infinicache",
        by_formula("serving (formula 4)", hour.serving_usd, is_fixed=False),
        by_formula("keeping warm (formula 5)", hour.warm_up_usd, is_fixed=True),
        by_formula("backup (formula 6)", hour.backup_usd, is_fixed=True),
        misses=demand.objects,
        note=f"{pool.functions} functions of 1.5 GB; its proxy is not billed",
    )


_BY_TYPE = {"ec2": "ec2:", "elasticache-redis": "elasticache-redis:", "elasticache-valkey": "elasticache-valkey:"}
_KINDS: dict[str, Callable[[_Market, str], Offer]] = {
    "s3-only": _s3_only,
    "ec2": _ec2,
    "perfect-automation": _perfect_automation,
    "elasticache-redis": _elasticache("redis"),
    "elasticache-valkey": _elasticache("valkey"),
    "serverless-valkey": _serverless("valkey"),
    "serverless-redis": _serverless("redis"),
    "cloudfront": _cloudfront,
    "lambda-always": _lambda_always,
    "infinicache": _infinicache,
}
