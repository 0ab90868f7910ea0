"""DynamoDB items as plain Python values (whole numbers, text, lists, sets), and the errors of conditional writes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

from boto3.dynamodb.types import TypeDeserializer, TypeSerializer
from botocore.exceptions import ClientError

_serialize = TypeSerializer().serialize
_deserialize = TypeDeserializer().deserialize

# Rows outlive the longest phase (30 days of RedisRunning), then TTL removes them; epochs continue from the clock.
ROW_LIFE_S = 40 * 24 * 3600


def to_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return plain values in DynamoDB's notation."""
    return {name: _serialize(value) for name, value in values.items()}


def to_plain(item: Mapping[str, Any]) -> dict[str, Any]:
    """Return an item in DynamoDB's notation as plain values."""
    return {name: _plain(_deserialize(value)) for name, value in item.items()}


def write_if(write: Callable[..., dict[str, Any]], **arguments: Any) -> dict[str, Any] | None:
    """Return the answer to a conditional write; None if it found another state than it asked for."""
    try:
        return write(**arguments)
    except ClientError as error:
        if error.response["Error"]["Code"] == "ConditionalCheckFailedException":
            return None
        raise


def _plain(value: Any) -> Any:
    return int(value) if isinstance(value, Decimal) else value
