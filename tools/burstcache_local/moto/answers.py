"""Answers from custom resources' functions to CloudFormation."""

from __future__ import annotations

import threading
from typing import Any

from burstcache_local.errors import TemplateError


class Answers:
    """Responses from custom resources' functions that CloudFormation has not read yet."""

    def __init__(self) -> None:
        self._answers: dict[str, dict[str, Any]] = {}
        self._arrived = threading.Condition()

    def put(self, request_id: str, answer: dict[str, Any]) -> None:
        """Store the response that a function has PUT to its ResponseURL."""
        with self._arrived:
            self._answers[request_id] = answer
            self._arrived.notify_all()

    def take(self, request_id: str, logical_id: str) -> dict[str, Any]:
        """Remove and return a response, or raise TemplateError if none arrives within 5 s."""
        with self._arrived:
            if not self._arrived.wait_for(lambda: request_id in self._answers, 5):
                raise TemplateError(f"{logical_id}: its function returned without an answer to the ResponseURL")
            return self._answers.pop(request_id)
