"""Batches of DynamoDB items. Unprocessed (usually throttled) items are retried with exponential backoff.

If DynamoDB cannot process any item of a batch, it fails the request, so retries terminate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from burstcache.adapters.calls import call_aws
from burstcache.adapters.clock import Clock
from burstcache.adapters.items import to_plain, to_values

if TYPE_CHECKING:
    from types_boto3_dynamodb.client import DynamoDBClient

_READ_AT_ONCE, _WRITTEN_AT_ONCE = 100, 25  # DynamoDB's limits per request
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.05, 1.0


def read_items(
    client: DynamoDBClient, table_name: str, keys: Iterable[Mapping[str, Any]], clock: Clock, *, is_consistent: bool
) -> list[dict[str, Any]]:
    """Return the items that exist, in no particular order.

    Args:
        client: DynamoDB client.
        table_name: Name of the table.
        keys: Primary keys of the items, as plain values.
        clock: Sleeps between retries.
        is_consistent: Use strongly consistent reads. Eventually consistent reads cost half.

    Raises:
        ServiceError: DynamoDB fails.
    """
    items: list[dict[str, Any]] = []

    def read(batch: list[Any]) -> Sequence[Any]:
        request: Any = {table_name: {"Keys": batch, "ConsistentRead": is_consistent}}
        response = call_aws(client.batch_get_item, RequestItems=request)
        items.extend(map(to_plain, response["Responses"].get(table_name, ())))
        return response["UnprocessedKeys"][table_name]["Keys"] if response["UnprocessedKeys"] else ()

    _process_all(read, map(to_values, keys), _READ_AT_ONCE, clock)
    return items


def put_items(client: DynamoDBClient, table_name: str, items: Iterable[Mapping[str, Any]], clock: Clock) -> None:
    """Write items, replacing existing items. After a ServiceError, some of the items may have been written."""

    def put(batch: list[Any]) -> Sequence[Any]:
        response = call_aws(client.batch_write_item, RequestItems={table_name: batch})
        return response["UnprocessedItems"].get(table_name, ())

    _process_all(put, ({"PutRequest": {"Item": to_values(item)}} for item in items), _WRITTEN_AT_ONCE, clock)


def _process_all(call: Callable[[list[Any]], Sequence[Any]], items: Iterable[Any], at_once: int, clock: Clock) -> None:
    pending, pause_s = list(items), _FIRST_PAUSE_S
    while pending:
        unprocessed = call(pending[:at_once])
        pending = [*unprocessed, *pending[at_once:]]
        if unprocessed:
            clock.sleep(pause_s)
        pause_s = min(2 * pause_s, _LONGEST_PAUSE_S) if unprocessed else _FIRST_PAUSE_S
