"""Transactions of conditional writes: their outcome by item, and their failures by reason."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from burstcache.adapters.calls import call_aws
from burstcache.core.errors import ServiceError, ServiceTransientError

if TYPE_CHECKING:
    from types_boto3_dynamodb.client import DynamoDBClient

UNMET, COLLIDED = "ConditionalCheckFailed", "TransactionConflict"
_LOST = frozenset({"None", UNMET, COLLIDED})
_TRANSIENT = frozenset({"ThrottlingError", "ProvisionedThroughputExceeded"})


def transact_if(client: DynamoDBClient, updates: Sequence[dict[str, Any]]) -> tuple[str, ...]:
    """Make updates in one transaction. Return nothing after success, else each item's reason.

    A reason is `UNMET`, `COLLIDED` (another writer of the item, so a retry may help) or `None` (another item's reason).

    Raises:
        ServiceError: The transaction failed for another reason, which is the error's `code`.
        ServiceTransientError: DynamoDB throttled the transaction, was overloaded or was unreachable.
    """
    items: list[Any] = [{"Update": update} for update in updates]
    try:
        call_aws(client.transact_write_items, TransactItems=items)
    except ServiceError as error:
        if error.code != "TransactionCanceledException" or not error.reasons:
            raise
        if others := [reason for reason in error.reasons if reason not in _LOST]:
            kind = ServiceTransientError if _TRANSIENT.issuperset(others) else ServiceError
            raise kind(str(error), code=others[0], reasons=error.reasons) from error
        return error.reasons
    return ()
