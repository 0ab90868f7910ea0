"""Nodes with Redis or Valkey: how much they hold, and what they cost always on."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from burstcache.core.errors import InvalidSettingError
from burstcache.core.parameters import US_PER_S
from burstcache.core.prices import PriceSheet
from burstcache_sim.bill.market import VOLUME_GB, Market, Offer
from burstcache_sim.units import US_PER_H

GIB = 1024**3
LARGEST_VALUE_BYTES = 512 * 1024**2  # of Redis and Valkey
# What is left for objects: this system gives Redis three quarters (template.yaml), ElastiCache reserves a quarter.
MEMORY_SHARE = Fraction(3, 4)
# Memory of instances and cache nodes [GiB]; AWS's pages, from memory.
_MEMORY_GIB = {
    "t2.micro": 1.0,
    "t3.micro": 1.0,
    "t3a.micro": 1.0,
    "t4g.nano": 0.5,
    "t4g.micro": 1.0,
    "t4g.small": 2.0,
    "t4g.medium": 4.0,
    "t4g.large": 8.0,
    "m7g.medium": 4.0,
    "m7g.large": 8.0,
    "r7g.medium": 8.0,
    "r7g.large": 16.0,
    "r7g.xlarge": 32.0,
    "r7g.2xlarge": 64.0,
    "r7g.4xlarge": 128.0,
    "r8g.medium": 8.0,
    "r8g.large": 16.0,
}
_USUAL_TYPES = ("t4g.micro", "t4g.small", "r7g.large")  # by memory; the first is the template's default
_CACHE_NODE_GIB = {
    "t2.micro": 0.555,
    "t3.micro": 0.5,
    "t4g.micro": 0.5,
    "t4g.small": 1.37,
    "t4g.medium": 3.09,
    "r7g.large": 13.07,
    "r7g.xlarge": 26.32,
    "r7g.2xlarge": 52.82,
    "r7g.4xlarge": 105.81,
    "r8g.large": 13.07,
}
# Tasks of Fargate by memory: processors and memory; the smallest processor that AWS pairs with it.
FARGATE_SIZES = {
    "0.5GB": (Fraction(1, 4), Fraction(1, 2)),
    "1GB": (Fraction(1, 4), Fraction(1)),
    "2GB": (Fraction(1, 4), Fraction(2)),
    "4GB": (Fraction(1, 2), Fraction(4)),
    "8GB": (Fraction(1), Fraction(8)),
    "16GB": (Fraction(2), Fraction(16)),
    "30GB": (Fraction(4), Fraction(30)),
}
# Serverless bills at least this much memory, whatever is stored.
_SERVERLESS_LEAST_GB = {"valkey": Fraction(1, 10), "redis": Fraction(1)}
SERVERLESS_SIZES_GB = (1, 2, 4, 8, 16, 32, 64, 128)  # maxima worth trying
_BYTES_PER_ECPU = 1024


def node_capacity_bytes(instance_type: str) -> int | None:
    """Return what Redis holds on a node of ours [bytes]; None if that is unknown."""
    gib = _MEMORY_GIB.get(instance_type)
    return None if gib is None else _usable_bytes(gib)


def fitting_type(prices: PriceSheet, stored_bytes: int) -> str:
    """Return the smallest of the template's usual nodes that holds the objects; the largest if none does.

    Args:
        prices: Only nodes that it has a price for.
        stored_bytes: All objects of a log together [bytes].
    """
    priced = [type_ for type_ in _USUAL_TYPES if type_ in prices.kinds("ec2:")] or [_USUAL_TYPES[0]]
    fitting = (type_ for type_ in priced if (node_capacity_bytes(type_) or 0) >= stored_bytes)
    return next(fitting, priced[-1])


def node_misses(market: Market, type_: str) -> Fraction:
    """Return the misses of a period on a node of EC2 with its memory."""
    return market.lru_misses(_known(type_, _MEMORY_GIB), largest_bytes=LARGEST_VALUE_BYTES)


def always_on(market: Market, type_: str) -> Offer:
    """Return a node of one's own."""
    seconds = -(-market.demand.period_us // US_PER_S)
    items = [(f"+ec2:{type_}", Fraction(max(60, seconds), 3600), f"{type_}, always on")]
    if not market.only_cache:
        items.append(("+ebs-gp3", VOLUME_GB * market.hours, "volume"))
    misses = node_misses(market, type_)
    return market.offer(f"ec2:{type_}", *items, misses=misses, note="self-hosted, always on, LRU in its memory")


def elasticache(engine: str) -> Callable[[Market, str], Offer]:
    """Return what offers nodes of ElastiCache with an engine."""

    def offer(market: Market, type_: str) -> Offer:
        hours = -(-market.demand.period_us // US_PER_H) or 1
        item = (f"+elasticache-{engine}:{type_}", hours, f"cache.{type_}, {engine}")
        market.prices.row(f"elasticache-{engine}:{type_}")
        misses = market.lru_misses(_known(type_, _CACHE_NODE_GIB), largest_bytes=LARGEST_VALUE_BYTES)
        return market.offer(
            f"elasticache-{engine}:{type_}", item, misses=misses, note="LRU in its memory, billed by the full hour"
        )

    return offer


def serverless(engine: str) -> Callable[[Market, str], Offer]:
    """Return what offers ElastiCache Serverless with an engine: unlimited, or with a maximum such as `4GB`."""

    def offer(market: Market, size: str) -> Offer:
        demand, least_gb = market.demand, _SERVERLESS_LEAST_GB[engine]
        most_bytes = market.locality.stored_bytes
        if size:
            most_bytes = min(most_bytes, _gigabytes(size) * GIB)
        misses = market.lru_misses(most_bytes, largest_bytes=LARGEST_VALUE_BYTES)
        # A processing unit is a KB moved, and at least one per request; what was missed is written.
        moved = max(demand.requests, -(-demand.body_bytes // _BYTES_PER_ECPU))
        written = misses * max(Fraction(1), Fraction(demand.body_bytes, demand.requests * _BYTES_PER_ECPU))
        return market.offer(
            f"serverless-{engine}{':' * bool(size)}{size}",
            (f"+serverless-memory:{engine}", max(least_gb, Fraction(most_bytes, GIB)) * market.hours, "memory"),
            (f"serverless-ecpu:{engine}", moved + written, "processing units"),
            misses=misses,
            note=f"LRU at a maximum of {size}" if size else f"at least {float(least_gb):g} GB",
        )

    return offer


def fargate(prefix: str, note: str) -> Callable[[Market, str], Offer]:
    """Return what offers Valkey in a task of Fargate, always on."""

    def offer(market: Market, size: str) -> Offer:
        if size not in FARGATE_SIZES:
            raise InvalidSettingError(f"competitor {prefix}:{size}: expected a size of {', '.join(FARGATE_SIZES)}")
        vcpu, gb = FARGATE_SIZES[size]
        misses = market.lru_misses(_usable_bytes(float(gb)), largest_bytes=LARGEST_VALUE_BYTES)
        return market.offer(
            f"{prefix}:{size}",
            (f"+{prefix}-vcpu:arm", vcpu * market.hours, "task, processor"),
            (f"+{prefix}-memory:arm", gb * market.hours, "task, memory"),
            misses=misses,
            note=note,
        )

    return offer


def _usable_bytes(gib: float) -> int:
    return int(gib * MEMORY_SHARE * GIB)


def _known(type_: str, memory_gib: dict[str, float]) -> int:
    if type_ not in memory_gib:
        raise InvalidSettingError(f"instance type {type_}: its memory is not known, expected {', '.join(memory_gib)}")
    return _usable_bytes(memory_gib[type_])


def _gigabytes(size: str) -> int:
    number = size.removesuffix("GB")
    if not number.isdecimal() or not int(number):
        raise InvalidSettingError(f"size {size!r}: expected whole gigabytes, such as 4GB")
    return int(number)
