"""Nodes with Redis or Valkey: their capacity, and quotes for always-on operation.

Up to eight nodes shard the keys by hash, as in this system. `3xt4g.nano` means three `t4g.nano` nodes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction

from burstcache.core.errors import InvalidSettingError
from burstcache.core.node_kinds import EC2_GIB, FARGATE_SIZES, MAX_NODES, node_kind, task_size
from burstcache.core.parameters import US_PER_S
from burstcache.core.prices import PriceSheet
from burstcache_sim.bill.cache_losses import CacheLosses, losses_of
from burstcache_sim.bill.demand import BYTES_PER_KB
from burstcache_sim.bill.locality import EVERYTHING_BYTES
from burstcache_sim.bill.market import VOLUME_GB, Market, Quote
from burstcache_sim.units import US_PER_H

GIB = 1024**3
LARGEST_VALUE_BYTES = 512 * 1024**2  # limit of Redis and Valkey
# Share of a node's memory for objects: this system gives Redis three quarters (template.yaml), and ElastiCache reserves
# a quarter.
MEMORY_SHARE = Fraction(3, 4)
# Memory of instances and cache nodes [GiB]. Recalled from AWS's pages, not verified.
_MEMORY_GIB = {
    "t2.micro": 1.0,
    "t3.micro": 1.0,
    "t3a.micro": 1.0,
    **EC2_GIB,
    "r7g.xlarge": 32.0,
    "r7g.2xlarge": 64.0,
    "r7g.4xlarge": 128.0,
}
_USUAL_TYPES = ("t4g.micro", "t4g.small", "r7g.large")  # by ascending memory, starting with the template's default
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
_FARGATE_GIB = {size: float(gb) for size, (_, gb) in FARGATE_SIZES.items()}
# Minimum memory that ElastiCache Serverless bills.
_SERVERLESS_MIN_GB = {"valkey": Fraction(1, 10), "redis": Fraction(1)}
SERVERLESS_SIZES_GB = (1, 2, 4, 8, 16, 32, 64, 128)  # candidates for the memory limit
_SHARED = "keys shared by hash"
_MIN_GROWTH = Fraction(6, 5)  # growth of memory between candidates; closer candidates have nearly the same hits


@dataclass(frozen=True, slots=True)
class NodeGroup:
    """Nodes of one type that shard the keys."""

    count: int
    type_: str
    each_bytes: int  # capacity of each node for objects

    @property
    def text(self) -> str:
        """The group's name in a bill."""
        return self.type_ if self.count == 1 else f"{self.count} {self.type_}"

    def misses(self, market: Market, losses: CacheLosses | None = None) -> Fraction:
        """Return the misses in the market's period."""
        return market.lru_misses(self.each_bytes, largest_bytes=LARGEST_VALUE_BYTES, nodes=self.count, losses=losses)

    @property
    def largest_bytes(self) -> int:
        """The largest object that a node accepts [bytes]."""
        return min(self.each_bytes, LARGEST_VALUE_BYTES)


def parse_nodes(text: str, memory_gib: Mapping[str, float]) -> NodeGroup:
    """Parse a name such as `t4g.nano` or `3xt4g.nano`.

    Args:
        text: The name.
        memory_gib: Memory by type [GiB].

    Raises:
        InvalidSettingError: The type's memory is unknown.
    """
    count, type_ = split_count(text)
    if type_ not in memory_gib:
        raise InvalidSettingError(f"instance type {type_}: its memory is not known, expected {', '.join(memory_gib)}")
    return NodeGroup(count, type_, _usable_bytes(memory_gib[type_]))


def split_count(text: str) -> tuple[int, str]:
    """Split a name such as `3xt4g.nano` into the number of nodes and their type."""
    match = re.fullmatch(rf"([2-{MAX_NODES}])x(.+)", text)
    return (int(match[1]), match[2]) if match else (1, text)


def ec2_nodes(text: str) -> NodeGroup:
    """Parse the name of EC2 nodes. Raises `InvalidSettingError`."""
    return parse_nodes(text, _MEMORY_GIB)


def candidate_nodes(
    usd_of: Mapping[str, Fraction], each_bytes: Mapping[str, int], stored_bytes: int
) -> list[NodeGroup]:
    """Return candidate groups by type and count, cheapest first, up to the first that fits all objects.

    At the same price, fewer and larger nodes come first, because each node has its own volume and lifecycle. Hashing
    never distributes objects perfectly evenly, so a group of several nodes needs spare memory to fit all objects.

    Args:
        usd_of: Price of a node by type, in any common time unit [USD].
        each_bytes: Capacity of a node by type [bytes].
        stored_bytes: Memory with which an LRU cache never evicts an object before its next request [bytes].
    """
    every = [NodeGroup(count, type_, each_bytes[type_]) for type_ in usd_of for count in range(1, MAX_NODES + 1)]
    candidates: list[NodeGroup] = []
    largest_bytes = 0
    for nodes in sorted(every, key=lambda one: (one.count * usd_of[one.type_], one.count, one.type_)):
        total_bytes = nodes.count * nodes.each_bytes
        needed_bytes = stored_bytes if nodes.count == 1 else _MIN_GROWTH * stored_bytes
        if total_bytes > largest_bytes and total_bytes >= min(_MIN_GROWTH * largest_bytes, needed_bytes):
            candidates.append(nodes)
            largest_bytes = total_bytes
        if total_bytes >= needed_bytes:
            break
    return candidates


def ec2_candidates(market: Market) -> list[NodeGroup]:
    """Return the groups of EC2 nodes to try for a log."""
    types = [type_ for type_ in market.prices.kinds("ec2:") if type_ in _MEMORY_GIB]
    return _market_candidates(market, {type_: market.prices.usd(f"ec2:{type_}") for type_ in types}, _MEMORY_GIB)


def elasticache_candidates(engine: str) -> Callable[[Market], list[NodeGroup]]:
    """Return a function that lists the groups of ElastiCache nodes to try for a log."""

    def find(market: Market) -> list[NodeGroup]:
        prefix = f"elasticache-{engine}:"
        types = [type_ for type_ in market.prices.kinds(prefix) if type_ in _CACHE_NODE_GIB]
        usd_of = {type_: market.prices.usd(prefix + type_) for type_ in types}
        return _market_candidates(market, usd_of, _CACHE_NODE_GIB)

    return find


def fargate_candidates(prefix: str) -> Callable[[Market], list[NodeGroup]]:
    """Return a function that lists the groups of Fargate tasks to try for a log."""

    def find(market: Market) -> list[NodeGroup]:
        if not market.prices.kinds(f"{prefix}-vcpu:"):
            return []
        vcpu_usd, gb_usd = (market.prices.usd(f"{prefix}-{resource}:arm") for resource in ("vcpu", "memory"))
        usd_of = {size: vcpu * vcpu_usd + gb * gb_usd for size, (vcpu, gb) in FARGATE_SIZES.items()}
        return _market_candidates(market, usd_of, _FARGATE_GIB)

    return find


def _market_candidates(
    market: Market, usd_of: Mapping[str, Fraction], memory_gib: Mapping[str, float]
) -> list[NodeGroup]:
    each_bytes = {type_: _usable_bytes(memory_gib[type_]) for type_ in usd_of}
    return candidate_nodes(usd_of, each_bytes, market.locality.working_bytes)


def node_capacity_bytes(instance_type: str) -> int | None:
    """Return the capacity of this system's node for objects [bytes], or None if the type is unknown.

    Raises:
        InvalidSettingError: The node's kind or size is unknown.
    """
    is_task = node_kind(instance_type) != "ec2"
    gib = float(task_size(instance_type)[1]) if is_task else _MEMORY_GIB.get(instance_type)
    return None if gib is None else _usable_bytes(gib)


def fitting_type(prices: PriceSheet, stored_bytes: int) -> str:
    """Return the smallest of the template's usual node types that fits the objects, or else the largest type.

    Args:
        prices: The price sheet. Nodes without a price are left out.
        stored_bytes: Total size of a log's objects [bytes].
    """
    priced = [type_ for type_ in _USUAL_TYPES if type_ in prices.kinds("ec2:")] or [_USUAL_TYPES[0]]
    fitting = (type_ for type_ in priced if (node_capacity_bytes(type_) or 0) >= stored_bytes)
    return next(fitting, priced[-1])


def always_on_name(instance_type: str) -> str:
    """Return the competitor's name for a node of this system's type that is always on."""
    return instance_type if ":" in instance_type else f"ec2:{instance_type}"


def always_on(market: Market, variant: str) -> Quote:
    """Return the quote for self-hosted EC2 nodes."""
    nodes, seconds = ec2_nodes(variant), -(-market.demand.period_us // US_PER_S)
    node_h = nodes.count * Fraction(max(60, seconds), 3600)
    items = [(f"+ec2:{nodes.type_}", node_h, f"{nodes.text}, always on")]
    if not market.only_cache:
        items.append(("+ebs-gp3", nodes.count * VOLUME_GB * market.hours, "volume"))
    note = f"self-hosted, always on, LRU in {_memory(nodes)}"
    name, misses = f"ec2:{variant}", nodes.misses(market)
    return market.quote(name, *items, misses=misses, note=note, largest_bytes=nodes.largest_bytes)


def elasticache(engine: str) -> Callable[[Market, str], Quote]:
    """Return a function that quotes ElastiCache nodes with this engine."""

    def quote(market: Market, variant: str) -> Quote:
        count, type_ = split_count(variant)
        market.prices.row(f"elasticache-{engine}:{type_}")
        nodes = parse_nodes(variant, _CACHE_NODE_GIB)
        hours = count * (-(-market.demand.period_us // US_PER_H) or 1)
        several = "" if count == 1 else f"{count} "
        item = (f"+elasticache-{engine}:{type_}", hours, f"{several}cache.{type_}, {engine}")
        note = f"LRU in {_memory(nodes)}, billed by the full hour"
        name, misses = f"elasticache-{engine}:{variant}", nodes.misses(market)
        return market.quote(name, item, misses=misses, note=note, largest_bytes=nodes.largest_bytes)

    return quote


def serverless(engine: str) -> Callable[[Market, str], Quote]:
    """Return a function that quotes ElastiCache Serverless with this engine, with or without a limit such as `4GB`."""

    def quote(market: Market, size: str) -> Quote:
        demand, min_gb = market.demand, _SERVERLESS_MIN_GB[engine]
        held_bytes, memory_bytes = market.locality.kept_bytes(market.repeats)[0], EVERYTHING_BYTES
        if size:
            memory_bytes = min(market.locality.working_bytes, _gigabytes(size) * GIB)
            held_bytes = min(held_bytes, Fraction(memory_bytes))
        misses = market.lru_misses(memory_bytes, largest_bytes=LARGEST_VALUE_BYTES)
        # A processing unit is one KB transferred, at least one unit per command. A hit reads the object. A miss takes a
        # failed read and a write of the object.
        return market.quote(
            f"serverless-{engine}{':' * bool(size)}{size}",
            (f"+serverless-memory:{engine}", max(min_gb, held_bytes / GIB) * market.hours, "memory"),
            (f"serverless-ecpu:{engine}", Fraction(demand.moved_bytes, BYTES_PER_KB) + misses, "processing units"),
            misses=misses,
            note=f"LRU at a maximum of {size}" if size else f"at least {float(min_gb):g} GB",
            largest_bytes=LARGEST_VALUE_BYTES,
        )

    return quote


def fargate(prefix: str, note: str) -> Callable[[Market, str], Quote]:
    """Return a function that quotes Valkey in always-on Fargate tasks."""

    def quote(market: Market, variant: str) -> Quote:
        count, size = split_count(variant)
        if size not in FARGATE_SIZES:
            raise InvalidSettingError(f"competitor {prefix}:{variant}: expected a size of {', '.join(FARGATE_SIZES)}")
        nodes, (vcpu, gb) = parse_nodes(variant, _FARGATE_GIB), FARGATE_SIZES[size]
        tasks = "task" if count == 1 else f"{count} tasks"
        return market.quote(
            f"{prefix}:{variant}",
            (f"+{prefix}-vcpu:arm", count * vcpu * market.hours, f"{tasks}, processor"),
            (f"+{prefix}-memory:arm", count * gb * market.hours, f"{tasks}, memory"),
            misses=nodes.misses(market, losses_of(market.setup, f"{prefix}:{size}")),
            note=note if count == 1 else f"{note}; {_SHARED}",
            largest_bytes=nodes.largest_bytes,
        )

    return quote


def _usable_bytes(gib: float) -> int:
    return int(gib * MEMORY_SHARE * GIB)


def _memory(nodes: NodeGroup) -> str:
    return "its memory" if nodes.count == 1 else f"their memory, {_SHARED}"


def _gigabytes(size: str) -> int:
    number = size.removesuffix("GB")
    if not number.isdecimal() or not int(number):
        raise InvalidSettingError(f"size {size!r}: expected whole gigabytes, such as 4GB")
    return int(number)
