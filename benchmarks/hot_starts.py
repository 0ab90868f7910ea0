"""Starts of keys' lives, one after the other: table units per start, and whether any start is refused.

    python -m benchmarks.hot_starts [--starts 2000] [--limits 25 250 1000 5000] [--hot 10]

moto's DynamoDB answers in this process. It bills nothing, so the units follow from the size of each item: a transaction
takes two write units per KB of each item, other writes one, a strongly consistent read one per 4 KB. A number of keys
stays hot throughout. Each other key goes cold at once.
"""

from __future__ import annotations

import argparse
import os
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import boto3
from moto import mock_aws

from burstcache.adapters.clock import SystemClock
from burstcache.adapters.hot_keys import HotKeys
from burstcache.adapters.items import to_values
from burstcache.adapters.key_table import KeyTable
from burstcache.core.keys import key_hash
from burstcache.core.policy import RecordedRequest
from burstcache.core.rows import KeyRow
from burstcache.core.table import HOT_ITEM, KeyColumns, key_item
from burstcache_local.moto import registry as moto_repairs
from burstcache_terminal.text import table_text

_TABLE, _REGION = "table", "eu-west-1"
_KEY = [("pk", "HASH"), ("sk", "RANGE")]
_FAR_US = 2**62


class Meter:
    """The units of the calls that a client makes, counted by the sizes of the items.

    Args:
        client: The client to meter.
        other: A client that is not metered.
    """

    def __init__(self, client: Any, other: Any) -> None:
        self._other = other
        self.units = Counter[str]()
        self._params: Any = None
        client.meta.events.register("provide-client-params.dynamodb", self._note)
        client.meta.events.register("after-call.dynamodb", self._count)

    def item_bytes(self, key: Mapping[str, Any]) -> int:
        """Return the size of an item as DynamoDB counts it, 0 if it is absent."""
        item = self._other.get_item(TableName=_TABLE, Key=key, ConsistentRead=True).get("Item", {})
        return sum(len(name) + _bytes(value) for name, value in item.items())

    def _note(self, params: Any, **_: Any) -> None:
        self._params = params

    def _count(self, model: Any, **_: Any) -> None:
        params = self._params
        match model.name:
            case "TransactWriteItems":
                keys = [each["Update"]["Key"] for each in params["TransactItems"]]
                self.units["writes"] += sum(2 * _units(self.item_bytes(key), 1024) for key in keys)
                self.units["writes of HOT"] += sum(
                    2 * _units(self.item_bytes(key), 1024) for key in keys if key["pk"]["S"] == HOT_ITEM["pk"]
                )
            case "BatchGetItem":
                keys = params["RequestItems"][_TABLE]["Keys"]
                self.units["reads"] += sum(_units(self.item_bytes(key), 4096) for key in keys)
            case "GetItem":
                self.units["reads"] += _units(self.item_bytes(params["Key"]), 4096)
            case name:
                units = _units(self.item_bytes(params["Key"]), 1024)
                self.units["writes"] += units
                self.units["writes of HOT"] += units * (params["Key"]["pk"]["S"] == HOT_ITEM["pk"])
                assert name == "UpdateItem", name


def main() -> None:
    """Print a line per limit."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--starts", type=int, default=2_000, help="number of keys that start and go cold")
    parser.add_argument("--limits", type=int, nargs="+", default=[25, 250, 1000, 5000], help="values of MaxHotKeys")
    parser.add_argument("--hot", type=int, default=10, help="number of keys that stay hot")
    given = parser.parse_args()
    os.environ |= {"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_DEFAULT_REGION": _REGION}
    moto_repairs.apply()
    header = ("MaxHotKeys", "hot", "starts", "refused", "writes", "of them HOT", "reads", "items", "largest, bytes")
    rows = [_measured(most, given.hot, given.starts) for most in given.limits]
    print(table_text(header, rows, right=range(len(header))))


def _measured(most: int, hot: int, starts: int) -> tuple[str, ...]:
    with mock_aws():
        client, other = (boto3.client("dynamodb", region_name=_REGION) for _ in range(2))
        other.create_table(
            TableName=_TABLE,
            BillingMode="PAY_PER_REQUEST",
            AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name, _ in _KEY],
            KeySchema=[{"AttributeName": name, "KeyType": kind} for name, kind in _KEY],
        )
        clock = SystemClock()
        keys = HotKeys(KeyTable(_TABLE, client, clock), most, client, clock)
        refused = sum(_start(keys, other, f"hot {number}", deadline_us=_FAR_US) != "started" for number in range(hot))
        meter = Meter(client, other)
        refused += sum(_start(keys, other, f"{number}", deadline_us=1) != "started" for number in range(starts))
        sizes = list(_sizes(meter, other))
    units = [f"{meter.units[name] / starts:.2f}" for name in ("writes", "writes of HOT", "reads")]
    return tuple(map(str, (most, hot, starts, refused, *units, len(sizes), max(sizes))))


def _start(keys: HotKeys, other: Any, key: str, *, deadline_us: int) -> str:
    """Start the life of a key that readers have requested. It is cold after its deadline."""
    request, now_us = RecordedRequest(1, "request"), keys.clock.now_us()
    columns = KeyColumns(key=key, etag='"0123456789abcdef0123456789abcdef"', size_bytes=100_000, window=["1:request"])
    other.put_item(TableName=_TABLE, Item=to_values({**key_item(key_hash(key)), **columns}))
    life = KeyRow(key_hash(key), key, "lambda", 1, deadline_at_us=deadline_us, changed_at_us=now_us, trigger=request)
    return keys.start(life, former_epoch=0, now_us=now_us)


def _sizes(meter: Meter, other: Any) -> Iterator[int]:
    """Yield the sizes of all items that hold started keys."""
    values = {":hot": {"S": HOT_ITEM["pk"]}}
    pages = other.get_paginator("query").paginate(
        TableName=_TABLE, KeyConditionExpression="pk = :hot", ExpressionAttributeValues=values
    )
    for page in pages:
        for item in page["Items"]:
            yield meter.item_bytes({name: item[name] for name, _ in _KEY})


def _bytes(value: Mapping[str, Any]) -> int:
    ((kind, data),) = value.items()
    match kind:
        case "N":
            return len(data) // 2 + 2
        case "L":
            return 3 + sum(1 + _bytes(each) for each in data)
        case "SS" | "BS":
            return 3 + sum(map(_raw, data))
        case _:
            return _raw(data)


def _raw(data: Any) -> int:
    return len(data.encode()) if isinstance(data, str) else len(bytes(data))


def _units(size_bytes: int, unit_bytes: int) -> int:
    return max(1, -(-size_bytes // unit_bytes))


if __name__ == "__main__":
    main()
