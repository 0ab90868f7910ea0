"""Which nodes hold a log's objects."""

from __future__ import annotations

from fractions import Fraction

from burstcache.core.prices import PriceSheet

_GIB = 1024**3
# What is left for objects: this system gives Redis three quarters (template.yaml), ElastiCache reserves a quarter.
_MEMORY_SHARE = Fraction(3, 4)
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
    "r8g.medium": 8.0,
    "r8g.large": 16.0,
}
_USUAL_TYPES = ("t4g.micro", "t4g.small", "r7g.large")  # by memory; the first is the template's default
_CACHE_NODE_GIB = {"t2.micro": 0.555, "t3.micro": 0.5, "t4g.micro": 0.5, "r7g.large": 13.07, "r8g.large": 13.07}


def node_capacity_bytes(instance_type: str) -> int | None:
    """Return what Redis holds on a node of ours [bytes]; None if that is unknown."""
    gib = _MEMORY_GIB.get(instance_type)
    return None if gib is None else int(gib * _MEMORY_SHARE * _GIB)


def fitting_type(prices: PriceSheet, stored_bytes: int) -> str:
    """Return the smallest of the template's usual nodes that holds the objects; the largest if none does.

    Args:
        prices: Only nodes that it has a price for.
        stored_bytes: All objects of a log together [bytes].
    """
    priced = [type_ for type_ in _USUAL_TYPES if type_ in prices.kinds("ec2:")] or [_USUAL_TYPES[0]]
    fitting = (type_ for type_ in priced if (node_capacity_bytes(type_) or 0) >= stored_bytes)
    return next(fitting, priced[-1])


def why_too_small(kind: str, type_: str, stored_bytes: int) -> str:
    """Return why a node (`ec2` or ElastiCache) does not hold this many bytes; empty if it does."""
    gib = (_CACHE_NODE_GIB if kind.startswith("elasticache") else _MEMORY_GIB).get(type_)
    if gib is None:
        return "its memory is not known"
    return f"too small for {stored_bytes / _GIB:.2g} GB" if stored_bytes > gib * _MEMORY_SHARE * _GIB else ""
