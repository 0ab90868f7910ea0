"""Patches that repair moto's DynamoDB."""

from __future__ import annotations

import base64
import threading
from functools import wraps
from typing import Any

import orjson

from burstcache_local.moto.registry import repair


@repair
def items_change_one_at_a_time() -> None:
    """Serialize calls, because moto checks a condition and writes in two steps.

    Without this patch, two concurrent conditional writes can both succeed. A cancelled transaction restores whole
    tables and loses concurrent writes. A concurrent write also corrupts a response built from the same item.
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
    """Encode scan results with orjson, because moto encodes responses member by member.

    A scan of 5,000 rows takes moto 4 s and blocks all other calls. Items already are JSON values, except for bytes.
    """
    from moto.dynamodb.responses import DynamoHandler

    scan: Any = DynamoHandler.scan

    @wraps(scan)
    def written(self: Any) -> Any:
        body = orjson.dumps(scan(self).result, default=_base64).decode()
        return 200, {**self.response_headers, "Content-Type": "application/x-amz-json-1.0"}, body

    DynamoHandler.scan = written


def _base64(value: Any) -> str:
    """Encode bytes as Base64 for JSON."""
    if not isinstance(value, bytes):
        raise TypeError(f"{value!r}: expected a value of JSON or bytes")
    return base64.b64encode(value).decode()
