"""The form in which messages travel."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any


def iso(at_us: int) -> str:
    """Return a time as people and Step Functions read it: UTC, whole seconds."""
    return datetime.fromtimestamp(at_us // 1_000_000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def encode(message: Mapping[str, Any]) -> bytes:
    """Return a message as it goes over the relay and the bus."""
    return json.dumps(message, separators=(",", ":")).encode()
