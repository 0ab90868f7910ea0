"""Kinds of nodes, their sizes and their price per hour.

A node is an EC2 instance, named by its type (`t4g.micro`), or an ARM task on Fargate, named by the kind and the memory
(`fargate-spot:2GB`). The name of a task with a public IPv4 address, which AWS bills by the hour, ends in `+ipv4`.

Source:
    Sizes: AWS, "Amazon ECS task definition parameters for Fargate".
"""

from __future__ import annotations

from fractions import Fraction
from typing import Literal

from burstcache.core.errors import InvalidSettingError
from burstcache.core.prices.sheet import PriceSheet

NodeKind = Literal["ec2", "fargate", "fargate-spot"]
NODE_KINDS: tuple[NodeKind, ...] = ("ec2", "fargate", "fargate-spot")
# The EC2 types that the template allows, and their memory [GiB]. Recalled from AWS's pages, not verified.
EC2_GIB = {
    "t4g.nano": 0.5,
    "t4g.micro": 1.0,
    "t4g.small": 2.0,
    "t4g.medium": 4.0,
    "t4g.large": 8.0,
    "m7g.medium": 4.0,
    "m7g.large": 8.0,
    "r7g.medium": 8.0,
    "r7g.large": 16.0,
    "r8g.medium": 8.0,
    "r8g.large": 16.0,
}
NODE_TYPES = tuple(EC2_GIB)
MAX_NODES = 8  # of a stack
_ADDRESS = "+ipv4"
# Fargate tasks by memory size: the fewest vCPUs that AWS allows for the size, and the memory [GB].
FARGATE_SIZES = {
    "0.5GB": (Fraction(1, 4), Fraction(1, 2)),
    "1GB": (Fraction(1, 4), Fraction(1)),
    "2GB": (Fraction(1, 4), Fraction(2)),
    "4GB": (Fraction(1, 2), Fraction(4)),
    "8GB": (Fraction(1), Fraction(8)),
    "16GB": (Fraction(2), Fraction(16)),
    "30GB": (Fraction(4), Fraction(30)),
    "60GB": (Fraction(8), Fraction(60)),
    "120GB": (Fraction(16), Fraction(120)),
}


def node_kind(name: str) -> NodeKind:
    """Return the kind of a node. A name without a colon is an EC2 type.

    Raises:
        InvalidSettingError: The kind is unknown, or Fargate lacks the size.
    """
    kind, colon, _ = name.partition(":")
    if not colon:
        return "ec2"
    for task in NODE_KINDS[1:]:
        if kind == task and _size(name) in FARGATE_SIZES:
            return task
    sizes = ", ".join(FARGATE_SIZES)
    raise InvalidSettingError(
        f"node {name!r}: expected an EC2 type such as t4g.micro, or fargate:SIZE or fargate-spot:SIZE with a size of"
        f" {sizes}"
    )


def has_address(name: str) -> bool:
    """Return whether a node has a public IPv4 address."""
    return name.endswith(_ADDRESS)


def with_address(name: str) -> str:
    """Return the name of a task with a public IPv4 address."""
    return name if has_address(name) else name + _ADDRESS


def without_address(name: str) -> str:
    """Return the kind and the size in a node's name."""
    return name.removesuffix(_ADDRESS)


def _size(name: str) -> str:
    return without_address(name).partition(":")[2]


def fallback_name(name: str) -> str:
    """Return the node that runs where Spot has no capacity, or an empty text. Raises `InvalidSettingError`."""
    return f"fargate:{name.partition(':')[2]}" if node_kind(name) == "fargate-spot" else ""


def task_size(name: str) -> tuple[Fraction, Fraction]:
    """Return the vCPUs and the memory [GB] of a node that runs as a task. The name must be one of these nodes'."""
    return FARGATE_SIZES[_size(name)]


def node_items(name: str) -> tuple[tuple[str, Fraction], ...]:
    """Return the price items of a node, and the units of each that an hour uses. Raises `InvalidSettingError`."""
    kind = node_kind(name)
    if kind == "ec2":
        return ((f"ec2:{name}", Fraction(1)),)
    vcpu, gb = task_size(name)
    address = (("ipv4", Fraction(1)),) if has_address(name) else ()
    return ((f"{kind}-vcpu:arm", vcpu), (f"{kind}-memory:arm", gb), *address)


def node_usd_per_h(sheet: PriceSheet, name: str) -> Fraction:
    """Return the price of an hour of a node [USD].

    Raises:
        InvalidSettingError: The kind or the size is unknown.
        PriceMissingError: The sheet has no price for the node.
    """
    return sum((units * sheet.usd(item) for item, units in node_items(name)), Fraction(0))


def node_names(sheet: PriceSheet, kind: NodeKind) -> tuple[str, ...]:
    """Return the names of all nodes of a kind that a sheet prices."""
    if kind == "ec2":
        return sheet.kinds("ec2:")
    return tuple(f"{kind}:{size}" for size in FARGATE_SIZES) if sheet.kinds(f"{kind}-vcpu:arm") else ()
