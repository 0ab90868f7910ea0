"""Redis control's handler: what it writes to its log."""

from __future__ import annotations

import json
from typing import Any

import pytest

from burstcache.handlers import redis_control


class _Control:
    def run(self, operation: object) -> dict[str, Any]:
        return {}


def test_token_is_not_logged(monkeypatch: pytest.MonkeyPatch) -> None:
    logged: list[dict[str, Any]] = []

    class Log:
        def info(self, text: str, extra: dict[str, Any]) -> None:
            logged.append(extra)

    monkeypatch.setattr(redis_control, "control", _Control)
    monkeypatch.setattr(redis_control, "logger", Log)
    token = "its owner ends the task"
    event = {"op": "join", "key": "k", "key_hash": "0" * 32, "epoch": 1, "token": token}

    redis_control.handler(event, None)

    assert logged[0]["event"]["key"] == "k"
    assert token not in json.dumps(logged)
