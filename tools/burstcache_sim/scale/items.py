"""Sizes of the table's items, and the capacity units of reading and writing them.

Source:
    DynamoDB Developer Guide, "DynamoDB item sizes and formats".
"""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil

from burstcache.core.keys import key_hash
from burstcache.core.node_use import NodeUse, encode
from burstcache.core.pending_reports import REPORT_BYTES, PendingReport, encode_report
from burstcache.core.table import (
    HOT_ITEM,
    DigestColumns,
    HotColumns,
    ItemKey,
    UseColumns,
    hot_shard_item,
    shown_node_item,
    shown_route_item,
    use_item,
)

WRITE_UNIT_BYTES, READ_UNIT_BYTES = 1024, 4096
_TRANSACTION = 2  # units of a write in a transaction, relative to a plain write
_HASH = key_hash("")
# As in `burstcache.adapters.hot_keys` and `use_table`, compared by a test.
MOST_IN_BANK, KEYS_PER_SHARD, LOAN, REPORTS = 28, 32, 8, 32
# A number of this length stands for a time in ms, us or s, or a generation.
_MS, _US, _S = 1_767_225_600_123, 1_767_225_600_123_456, 1_767_225_600

_HASHES = [key_hash(str(number)) for number in range(MOST_IN_BANK)]
_PACKED = {bytes.fromhex(key_hash(str(number))) for number in range(KEYS_PER_SHARD)}
_BANK = HotColumns(starts=_S, lent=MOST_IN_BANK, shards=KEYS_PER_SHARD)
_REPORTS_BYTES = REPORTS * REPORT_BYTES
_USE = encode(NodeUse(last_us=_US, times_us=(_US,) * 20))
_MANY = 100  # repeats in a report, which are merged
_PENDING_BYTES = len(encode_report(PendingReport(bytes(REPORT_BYTES), [(_US, 1)] * _MANY)))


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


def start_write_units(max_hot_keys: int) -> float:
    """Return the units that a start writes to the set of started keys, with its share of a shard's loan."""
    if max_hot_keys <= MOST_IN_BANK:
        return _TRANSACTION * write_units(
            item_bytes(HOT_ITEM, {**HotColumns(live=set(_HASHES[:max_hot_keys]), **_BANK)})
        )
    shard = HotColumns(live=_PACKED, starts=_S, room=KEYS_PER_SHARD, most=max_hot_keys)
    shard_units = write_units(item_bytes(hot_shard_item(0), {**shard}))
    bank_units = write_units(item_bytes(HOT_ITEM, {**HotColumns(**_BANK)}))
    return _TRANSACTION * (shard_units + (shard_units + bank_units) / LOAN)


def use_bytes(pending: int) -> int:
    """Return the size of a node's use with pending reports, each of a busy reader [bytes].

    The use is that of break-even while a node is off, with all the arrivals that it keeps.
    """
    columns = UseColumns(use=_USE, version=_S, reports=bytes(_REPORTS_BYTES), looked_at_us=_US)
    return item_bytes(use_item("node-1"), {**columns}) + len("pending") * (pending > 0) + pending * _PENDING_BYTES
