"""DynamoDB items as plain Python values: int, str, bytes, bool, lists of these, and sets of str or of bytes.

boto3's own conversion would import all of boto3, and it returns Binary and Decimal.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# A key's row outlives the longest phase (30 days of RedisRunning). Most keys were never hot. Their rows are kept for an
# hour, or for as long as their requests count. Then TTL removes the row. Later epochs start from the clock.
LIFE_ROW_S = 40 * 24 * 3600
COLD_ROW_S = 3600


def to_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """Convert plain values to DynamoDB's format, or raise TypeError for an unsupported type."""
    return {name: _attribute(value) for name, value in values.items()}


def to_plain(item: Mapping[str, Any]) -> dict[str, Any]:
    """Convert an item in DynamoDB's format to plain values, or raise TypeError for an unsupported type."""
    return {name: _plain(value) for name, value in item.items()}


def _attribute(value: object) -> dict[str, Any]:
    match value:
        case bool():  # before int, because a bool is also an int
            return {"BOOL": value}
        case int():
            return {"N": str(value)}
        case str():
            return {"S": value}
        case bytes():
            return {"B": value}
        case list() | tuple():
            return {"L": [_attribute(each) for each in value]}
        case set() | frozenset() if all(isinstance(each, str) for each in value):
            return {"SS": list(value)}
        case set() | frozenset() if all(isinstance(each, bytes) for each in value):
            return {"BS": list(value)}
    raise TypeError(
        f"{value!r} cannot be part of an item; accepted: int, str, bytes, bool, lists of these, sets of str or bytes"
    )


def _plain(value: Mapping[str, Any]) -> Any:
    ((kind, data),) = value.items()
    match kind:
        case "S" | "B" | "BOOL":
            return data
        case "N":
            return int(data)
        case "L":
            return [_plain(each) for each in data]
        case "SS" | "BS":
            return set(data)
    raise TypeError(f"an item has a value of type {kind!r}; accepted: S, N, B, BOOL, L, SS, BS")
