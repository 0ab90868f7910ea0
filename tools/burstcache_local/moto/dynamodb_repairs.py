"""Repairs to moto's DynamoDB."""

from __future__ import annotations

import threading
from functools import wraps
from typing import Any

from burstcache_local.moto.registry import repair

_OPERATIONS = ("put_item", "get_item", "query", "scan", "update_item", "delete_item", "transact_write_items")


@repair
def items_change_one_at_a_time() -> None:
    """moto looks at a condition and writes in two steps, and a refused transaction puts back a whole table.

    Of two concurrent callers both win a conditional write, and a write during a refused transaction is lost.
    """
    from moto.dynamodb.models import DynamoDBBackend

    lock = threading.RLock()  # a transaction calls the single writes

    def one_at_a_time(method: Any) -> Any:
        @wraps(method)
        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            with lock:
                return method(self, *args, **kwargs)

        return call

    for name in _OPERATIONS:
        setattr(DynamoDBBackend, name, one_at_a_time(getattr(DynamoDBBackend, name)))
