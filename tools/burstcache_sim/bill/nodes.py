"""Nodes with Redis or Valkey: how much they hold, and what they cost always on.

Up to eight may share the keys by their hash, as this system's own do: `3xt4g.nano` are three.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction

from burstcache.core.errors import InvalidSettingError
from burstcache.core.parameters import US_PER_S
from burstcache.core.prices import PriceSheet
from burstcache_sim.bill.demand import BYTES_PER_KB
from burstcache_sim.bill.locality import EVERYTHING_BYTES
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
_FARGATE_GIB = {size: float(gb) for size, (_, gb) in FARGATE_SIZES.items()}
# Serverless bills at least this much memory, whatever is stored.
_SERVERLESS_LEAST_GB = {"valkey": Fraction(1, 10), "redis": Fraction(1)}
SERVERLESS_SIZES_GB = (1, 2, 4, 8, 16, 32, 64, 128)  # maxima worth trying
_SHARED = "keys shared by hash"
MOST_NODES = 8  # that share the keys, anybody's: what the template accepts
_MORE_MEMORY = Fraction(6, 5)  # times what the next smaller nodes have: closer ones serve nearly the same


@dataclass(frozen=True, slots=True)
class Nodes:
    """Nodes of one type that share the keys."""

    count: int
    type_: str
    each_bytes: int  # for objects

    @property
    def text(self) -> str:
        """What they are, in a bill."""
        return self.type_ if self.count == 1 else f"{self.count} {self.type_}"

    def misses(self, market: Market) -> Fraction:
        """Return the misses of a period."""
        return market.lru_misses(self.each_bytes, largest_bytes=LARGEST_VALUE_BYTES, nodes=self.count)

    @property
    def largest_bytes(self) -> int:
        """The largest object that they may hold [bytes]."""
        return min(self.each_bytes, LARGEST_VALUE_BYTES)


def nodes_of(text: str, memory_gib: Mapping[str, float]) -> Nodes:
    """Return the nodes that a name such as `t4g.nano` or `3xt4g.nano` stands for.

    Args:
        text: The name.
        memory_gib: Memory of the types that there are [GiB].

    Raises:
        InvalidSettingError: The type's memory is not known.
    """
    count, type_ = counted(text)
    if type_ not in memory_gib:
        raise InvalidSettingError(f"instance type {type_}: its memory is not known, expected {', '.join(memory_gib)}")
    return Nodes(count, type_, _usable_bytes(memory_gib[type_]))


def counted(text: str) -> tuple[int, str]:
    """Return how many nodes a name stands for, and their type."""
    several = re.fullmatch(rf"([2-{MOST_NODES}])x(.+)", text)
    return (int(several[1]), several[2]) if several else (1, text)


def ec2_nodes(text: str) -> Nodes:
    """Return the nodes of EC2 of a name; raises `InvalidSettingError`."""
    return nodes_of(text, _MEMORY_GIB)


def worth_trying(usd_of: Mapping[str, Fraction], each_bytes: Mapping[str, int], stored_bytes: int) -> list[Nodes]:
    """Return the nodes worth trying and how many, the cheapest first, up to the first that hold every object.

    Of the same price, fewer and larger ones: each has a volume and a life of its own. Several never share the objects
    quite evenly, so they hold every one only with memory to spare.

    Args:
        usd_of: Price of a node by type, in any unit of time [USD].
        each_bytes: What a node of each type holds [bytes].
        stored_bytes: What an LRU cache needs to lose no object that comes again [bytes].
    """
    every = [Nodes(count, type_, each_bytes[type_]) for type_ in usd_of for count in range(1, MOST_NODES + 1)]
    found: list[Nodes] = []
    most_bytes = 0
    for nodes in sorted(every, key=lambda one: (one.count * usd_of[one.type_], one.count, one.type_)):
        together_bytes = nodes.count * nodes.each_bytes
        needed_bytes = stored_bytes if nodes.count == 1 else _MORE_MEMORY * stored_bytes
        if together_bytes > most_bytes and together_bytes >= min(_MORE_MEMORY * most_bytes, needed_bytes):
            found.append(nodes)
            most_bytes = together_bytes
        if together_bytes >= needed_bytes:
            break
    return found


def ec2_worth_trying(market: Market) -> list[Nodes]:
    """Return the nodes of EC2 that a log is worth trying with."""
    types = [type_ for type_ in market.prices.kinds("ec2:") if type_ in _MEMORY_GIB]
    return _priced(market, {type_: market.prices.usd(f"ec2:{type_}") for type_ in types}, _MEMORY_GIB)


def elasticache_worth_trying(engine: str) -> Callable[[Market], list[Nodes]]:
    """Return what finds the nodes of ElastiCache that a log is worth trying with."""

    def find(market: Market) -> list[Nodes]:
        prefix = f"elasticache-{engine}:"
        types = [type_ for type_ in market.prices.kinds(prefix) if type_ in _CACHE_NODE_GIB]
        return _priced(market, {type_: market.prices.usd(prefix + type_) for type_ in types}, _CACHE_NODE_GIB)

    return find


def fargate_worth_trying(prefix: str) -> Callable[[Market], list[Nodes]]:
    """Return what finds the tasks of Fargate that a log is worth trying with."""

    def find(market: Market) -> list[Nodes]:
        if not market.prices.kinds(f"{prefix}-vcpu:"):
            return []
        vcpu_usd, gb_usd = (market.prices.usd(f"{prefix}-{what}:arm") for what in ("vcpu", "memory"))
        usd_of = {size: vcpu * vcpu_usd + gb * gb_usd for size, (vcpu, gb) in FARGATE_SIZES.items()}
        return _priced(market, usd_of, _FARGATE_GIB)

    return find


def _priced(market: Market, usd_of: Mapping[str, Fraction], memory_gib: Mapping[str, float]) -> list[Nodes]:
    each_bytes = {type_: _usable_bytes(memory_gib[type_]) for type_ in usd_of}
    return worth_trying(usd_of, each_bytes, market.locality.working_bytes)


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


def always_on(market: Market, of: str) -> Offer:
    """Return nodes of one's own."""
    nodes, seconds = ec2_nodes(of), -(-market.demand.period_us // US_PER_S)
    node_h = nodes.count * Fraction(max(60, seconds), 3600)
    items = [(f"+ec2:{nodes.type_}", node_h, f"{nodes.text}, always on")]
    if not market.only_cache:
        items.append(("+ebs-gp3", nodes.count * VOLUME_GB * market.hours, "volume"))
    note = f"self-hosted, always on, LRU in {_memory(nodes)}"
    return market.offer(f"ec2:{of}", *items, misses=nodes.misses(market), note=note, largest_bytes=nodes.largest_bytes)


def elasticache(engine: str) -> Callable[[Market, str], Offer]:
    """Return what offers nodes of ElastiCache with an engine."""

    def offer(market: Market, of: str) -> Offer:
        count, type_ = counted(of)
        market.prices.row(f"elasticache-{engine}:{type_}")
        nodes = nodes_of(of, _CACHE_NODE_GIB)
        hours = count * (-(-market.demand.period_us // US_PER_H) or 1)
        several = "" if count == 1 else f"{count} "
        item = (f"+elasticache-{engine}:{type_}", hours, f"{several}cache.{type_}, {engine}")
        note = f"LRU in {_memory(nodes)}, billed by the full hour"
        name, misses = f"elasticache-{engine}:{of}", nodes.misses(market)
        return market.offer(name, item, misses=misses, note=note, largest_bytes=nodes.largest_bytes)

    return offer


def serverless(engine: str) -> Callable[[Market, str], Offer]:
    """Return what offers ElastiCache Serverless with an engine: unlimited, or with a maximum such as `4GB`."""

    def offer(market: Market, size: str) -> Offer:
        demand, least_gb = market.demand, _SERVERLESS_LEAST_GB[engine]
        held_bytes, memory_bytes = market.locality.kept_bytes(market.repeats)[0], EVERYTHING_BYTES
        if size:
            memory_bytes = min(market.locality.working_bytes, _gigabytes(size) * GIB)
            held_bytes = min(held_bytes, Fraction(memory_bytes))
        misses = market.lru_misses(memory_bytes, largest_bytes=LARGEST_VALUE_BYTES)
        # A processing unit is a KB moved, at least one per command: a hit moves the object out, a miss asks in vain
        # and moves it in.
        return market.offer(
            f"serverless-{engine}{':' * bool(size)}{size}",
            (f"+serverless-memory:{engine}", max(least_gb, held_bytes / GIB) * market.hours, "memory"),
            (f"serverless-ecpu:{engine}", Fraction(demand.moved_bytes, BYTES_PER_KB) + misses, "processing units"),
            misses=misses,
            note=f"LRU at a maximum of {size}" if size else f"at least {float(least_gb):g} GB",
            largest_bytes=LARGEST_VALUE_BYTES,
        )

    return offer


def fargate(prefix: str, note: str) -> Callable[[Market, str], Offer]:
    """Return what offers Valkey in a task of Fargate, always on."""

    def offer(market: Market, of: str) -> Offer:
        count, size = counted(of)
        if size not in FARGATE_SIZES:
            raise InvalidSettingError(f"competitor {prefix}:{of}: expected a size of {', '.join(FARGATE_SIZES)}")
        nodes, (vcpu, gb) = nodes_of(of, _FARGATE_GIB), FARGATE_SIZES[size]
        what = "task" if count == 1 else f"{count} tasks"
        return market.offer(
            f"{prefix}:{of}",
            (f"+{prefix}-vcpu:arm", count * vcpu * market.hours, f"{what}, processor"),
            (f"+{prefix}-memory:arm", count * gb * market.hours, f"{what}, memory"),
            misses=nodes.misses(market),
            note=note if count == 1 else f"{note}; {_SHARED}",
            largest_bytes=nodes.largest_bytes,
        )

    return offer


def _usable_bytes(gib: float) -> int:
    return int(gib * MEMORY_SHARE * GIB)


def _memory(nodes: Nodes) -> str:
    return "its memory" if nodes.count == 1 else f"their memory, {_SHARED}"


def _gigabytes(size: str) -> int:
    number = size.removesuffix("GB")
    if not number.isdecimal() or not int(number):
        raise InvalidSettingError(f"size {size!r}: expected whole gigabytes, such as 4GB")
    return int(number)
