"""Sizes of the table's items, and the capacity units of reading and writing them.

Source:
    DynamoDB Developer Guide, "DynamoDB item sizes and formats".
"""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil

from burstcache.core.keys import key_hash
from burstcache.core.table import (
    HOT_ITEM,
    DigestColumns,
    HotColumns,
    ItemKey,
    shown_node_item,
    shown_route_item,
)

WRITE_UNIT_BYTES, READ_UNIT_BYTES = 1024, 4096
_TRANSACTION = 2  # units of a write in a transaction, relative to a plain write
_HASH = key_hash("")
# A number of this length stands for a time in ms, us or s, or a generation.
_MS, _US, _S = 1_767_225_600_123, 1_767_225_600_123_456, 1_767_225_600


def item_bytes(key: ItemKey, columns: Mapping[str, object]) -> int:
    """Return the size of an item by DynamoDB's rules [bytes]."""
    return sum(len(name) + _value_bytes(value) for name, value in {**key, **columns}.items())


def _value_bytes(value: object) -> int:
    match value:
        case str():
            return len(value.encode())
        case bytes():
            return len(value)
        case int():
            return (len(str(abs(value)).rstrip("0")) + 1) // 2 + 1
        case list():
            return 3 + sum(1 + _value_bytes(each) for each in value)
        case set():
            return sum(map(_value_bytes, value))
    raise TypeError(f"{value!r} is no value of an item")


def write_units(size_bytes: float) -> int:
    """Return the units of writing an item."""
    return ceil(size_bytes / WRITE_UNIT_BYTES)


def digest_bytes(*, routes: int, nodes: int, on_nodes: bool) -> int:
    """Return the size of the digest without its log of changes [bytes].

    Args:
        routes: Keys in tiers.
        nodes: Redis nodes, all running.
        on_nodes: Whether the routes lead to nodes, whose names they have.
    """
    route = DigestColumns(life=_MS, phase_rank=3, tier="lambda", deadline_at_us=_US, expires_at=_S)
    if on_nodes:
        route |= DigestColumns(tier="redis", node="node-1", generation=_MS)
    names = [f"node-{number + 1}" for number in range(nodes)]
    node = DigestColumns(life=_MS, phase_rank=3, is_running=1, peers=names, host="10.20.0.10")
    route_bytes = item_bytes(shown_route_item(_HASH), {**route})
    return routes * route_bytes + sum(item_bytes(shown_node_item(name), {**node}) for name in names)


def digest_read_units(size_bytes: float, *, is_consistent: bool) -> float:
    """Return the units of one Query of the digest."""
    units = ceil(size_bytes / READ_UNIT_BYTES)
    return units if is_consistent else units / 2


def hot_set_bytes(keys: int) -> int:
    """Return the size of the set of started keys [bytes]."""
    return item_bytes(HOT_ITEM, {**HotColumns(starts=_S, live=set())}) + keys * len(_HASH)


def start_write_units(max_hot_keys: int) -> int:
    """Return the units that a start writes to the set of started keys, while the set is full."""
    return _TRANSACTION * write_units(hot_set_bytes(max_hot_keys))
