"""Repairs to moto's DynamoDB."""

from __future__ import annotations

import threading
from functools import wraps
from typing import Any

from burstcache_local.moto.registry import repair


@repair
def items_change_one_at_a_time() -> None:
    """moto looks at a condition and writes in two steps, and a refused transaction puts back a whole table.

    Of two concurrent callers both win a conditional write, and a write during a refused transaction is lost. An answer
    is made from the item itself, so a write meanwhile breaks it.
    """
    from moto.dynamodb.responses import DynamoHandler

    lock, answer = threading.RLock(), DynamoHandler.call_action

    @wraps(answer)
    def one_at_a_time(self: Any) -> Any:
        with lock:
            return answer(self)

    DynamoHandler.call_action = one_at_a_time
