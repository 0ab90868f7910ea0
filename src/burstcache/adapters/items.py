"""DynamoDB items as plain Python values: whole numbers, text, lists, sets."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from boto3.dynamodb.types import TypeDeserializer, TypeSerializer

_serialize = TypeSerializer().serialize
_deserialize = TypeDeserializer().deserialize

# The row of a key outlives the longest phase (30 days of RedisRunning). If the key was never hot, as most, it stays for
# an hour, and for as long as its requests may count. Then TTL removes it; epochs continue from the clock.
LIFE_ROW_S = 40 * 24 * 3600
COLD_ROW_S = 3600


def to_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return plain values in DynamoDB's notation."""
    return {name: _serialize(value) for name, value in values.items()}


def to_plain(item: Mapping[str, Any]) -> dict[str, Any]:
    """Return an item in DynamoDB's notation as plain values."""
    return {name: _plain(_deserialize(value)) for name, value in item.items()}


def _plain(value: Any) -> Any:
    return int(value) if isinstance(value, Decimal) else value
