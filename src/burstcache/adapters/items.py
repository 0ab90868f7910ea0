"""DynamoDB items as plain Python values: whole numbers, text, bytes, truth, lists of these, sets of text.

boto3's conversion would bring all of boto3, wrappers around bytes, and decimals.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# The row of a key outlives the longest phase (30 days of RedisRunning). If the key was never hot, as most, it stays for
# an hour, and for as long as its requests may count. Then TTL removes it; epochs continue from the clock.
LIFE_ROW_S = 40 * 24 * 3600
COLD_ROW_S = 3600


def to_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return plain values in DynamoDB's notation, or raise TypeError for a value of another type."""
    return {name: _in_notation(value) for name, value in values.items()}


def to_plain(item: Mapping[str, Any]) -> dict[str, Any]:
    """Return an item in DynamoDB's notation as plain values, or raise TypeError for a value of another type."""
    return {name: _plain(value) for name, value in item.items()}


def _in_notation(value: object) -> dict[str, Any]:
    match value:
        case bool():  # which is an int as well
            return {"BOOL": value}
        case int():
            return {"N": str(value)}
        case str():
            return {"S": value}
        case bytes():
            return {"B": value}
        case list() | tuple():
            return {"L": [_in_notation(each) for each in value]}
        case set() | frozenset() if all(isinstance(each, str) for each in value):
            return {"SS": list(value)}
    raise TypeError(f"{value!r} has no place in an item; accepted: int, str, bytes, bool, lists of these, sets of str")


def _plain(value: Mapping[str, Any]) -> Any:
    ((kind, data),) = value.items()
    match kind:
        case "S" | "B" | "BOOL":
            return data
        case "N":
            return int(data)
        case "L":
            return [_plain(each) for each in data]
        case "SS":
            return set(data)
    raise TypeError(f"an item has a value of type {kind!r}; accepted: S, N, B, BOOL, L, SS")
