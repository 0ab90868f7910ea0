"""Repairs to moto's DynamoDB."""

from __future__ import annotations

import base64
import threading
from functools import wraps
from typing import Any

import orjson

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


@repair
def scans_are_written_at_once() -> None:
    """moto writes an answer member by member: of a scan of 5,000 rows, in four seconds, and answers nothing meanwhile.

    What it would write is a value of JSON already, but for bytes.
    """
    from moto.dynamodb.responses import DynamoHandler

    scan: Any = DynamoHandler.scan

    @wraps(scan)
    def written(self: Any) -> Any:
        body = orjson.dumps(scan(self).result, default=_base64).decode()
        return 200, {**self.response_headers, "Content-Type": "application/x-amz-json-1.0"}, body

    DynamoHandler.scan = written


def _base64(value: Any) -> str:
    """Return bytes as JSON has them."""
    if not isinstance(value, bytes):
        raise TypeError(f"{value!r}: expected a value of JSON or bytes")
    return base64.b64encode(value).decode()
