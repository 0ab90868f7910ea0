"""Many items in a call. What DynamoDB leaves undone is asked for again after a pause: it may be throttling.

Where it can do nothing of a batch it fails instead, so nothing here repeats for ever.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from burstcache.adapters.calls import ask
from burstcache.adapters.clock import Clock
from burstcache.adapters.items import to_plain, to_values

if TYPE_CHECKING:
    from types_boto3_dynamodb.client import DynamoDBClient

_READ_AT_ONCE, _WRITTEN_AT_ONCE = 100, 25  # more, DynamoDB refuses
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.05, 1.0


def read_items(
    client: DynamoDBClient, table_name: str, keys: Iterable[Mapping[str, Any]], clock: Clock, *, is_consistent: bool
) -> list[dict[str, Any]]:
    """Return the items that exist, as plain values, in no order.

    Args:
        client: DynamoDB.
        table_name: Where they are.
        keys: Their primary keys, as plain values.
        clock: What pauses go by.
        is_consistent: Whether they are read as they are now, or as they were a moment ago for half the price.

    Raises:
        ServiceError: DynamoDB fails.
    """
    found: list[dict[str, Any]] = []

    def read(batch: list[Any]) -> Sequence[Any]:
        answer = ask(client.batch_get_item, RequestItems={table_name: {"Keys": batch, "ConsistentRead": is_consistent}})
        found.extend(map(to_plain, answer["Responses"].get(table_name, ())))
        return answer["UnprocessedKeys"][table_name]["Keys"] if answer["UnprocessedKeys"] else ()

    _until_all_is_done(read, map(to_values, keys), _READ_AT_ONCE, clock)
    return found


def put_items(client: DynamoDBClient, table_name: str, items: Iterable[Mapping[str, Any]], clock: Clock) -> None:
    """Put items, whatever is there; raise ServiceError if DynamoDB fails, of which some may have been put before."""

    def put(batch: list[Any]) -> Sequence[Any]:
        answer = ask(client.batch_write_item, RequestItems={table_name: batch})
        return answer["UnprocessedItems"].get(table_name, ())

    _until_all_is_done(put, ({"PutRequest": {"Item": to_values(item)}} for item in items), _WRITTEN_AT_ONCE, clock)


def _until_all_is_done(
    call: Callable[[list[Any]], Sequence[Any]], items: Iterable[Any], at_once: int, clock: Clock
) -> None:
    wanted, pause_s = list(items), _FIRST_PAUSE_S
    while wanted:
        undone = call(wanted[:at_once])
        wanted = [*undone, *wanted[at_once:]]
        if undone:
            clock.sleep(pause_s)
        pause_s = min(2 * pause_s, _LONGEST_PAUSE_S) if undone else _FIRST_PAUSE_S
