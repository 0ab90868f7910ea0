"""Transactions over an engine that has none: TransactWriteItems as a sequence of writes that a refusal undoes.

No other call of this process comes between the writes. The engine evaluates every condition and update itself.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from support.dynamodb_endpoint import Answer, Forward

_FAILED = "ConditionalCheckFailedException"
_REASONS: dict[bool, dict[str, str]] = {
    True: {"Code": "None"},
    False: {"Code": "ConditionalCheckFailed", "Message": "The conditional request failed"},
}


class Transactions:
    """Calls to an engine, with transactions of updates, the only ones that the project makes.

    Args:
        call: The engine.
    """

    def __init__(self, call: Forward) -> None:
        self._call = call
        self._lock = threading.Lock()

    def forward(self, operation: str, body: bytes) -> Answer:
        """Answer a call."""
        with self._lock:
            if operation != "TransactWriteItems":
                return self._call(operation, body)
            return self._transact([part["Update"] for part in json.loads(body)["TransactItems"]])

    def _transact(self, updates: Sequence[Mapping[str, Any]]) -> Answer:
        items = [json.dumps([update["TableName"], update["Key"]], sort_keys=True) for update in updates]
        if len(set(items)) < len(items):
            return _refusal("ValidationException", "Transaction request cannot include multiple operations on one item")
        former = [self._read(update) for update in updates]
        answers: list[Answer] = []
        for update in updates:
            answers.append(self._call("UpdateItem", json.dumps(update).encode()))
            status, _, text = answers[-1]
            if status != 200 and _code(text) != _FAILED:
                break
        if all(status == 200 for status, _, _ in answers):
            return 200, {}, b"{}"
        for update, item, (status, _, _) in zip(updates, former, answers, strict=False):
            if status == 200:
                self._restore(update, item)
        if _code(answers[-1][2]) not in ("", _FAILED):
            return answers[-1]
        reasons = [_REASONS[status == 200] for status, _, _ in answers]
        codes = ", ".join(reason["Code"] for reason in reasons)
        message = f"Transaction cancelled, please refer cancellation reasons for specific reasons [{codes}]"
        return _refusal("TransactionCanceledException", message, CancellationReasons=reasons)

    def _read(self, update: Mapping[str, Any]) -> dict[str, Any]:
        place = {name: update[name] for name in ("TableName", "Key")}
        _, _, text = self._call("GetItem", json.dumps({**place, "ConsistentRead": True}).encode())
        return dict(json.loads(text).get("Item", {}))

    def _restore(self, update: Mapping[str, Any], item: Mapping[str, Any]) -> None:
        table = {"TableName": update["TableName"]}
        operation, request = (
            ("PutItem", {**table, "Item": item}) if item else ("DeleteItem", {**table, "Key": update["Key"]})
        )
        status, _, text = self._call(operation, json.dumps(request).encode())
        assert status == 200, text


def _code(text: bytes) -> str:
    return str(json.loads(text).get("__type", "")).rpartition("#")[2]


def _refusal(code: str, message: str, **more: Any) -> Answer:
    body = {"__type": f"com.amazonaws.dynamodb.v20120810#{code}", "message": message, **more}
    return 400, {}, json.dumps(body).encode()
