"""Encoding of messages and of their times."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any


def iso(at_us: int) -> str:
    """Format a time as ISO 8601 in UTC and whole seconds, for people and Step Functions."""
    return datetime.fromtimestamp(at_us // 1_000_000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def encode(message: Mapping[str, Any]) -> bytes:
    """Encode a message as JSON, for the relay and the bus."""
    return json.dumps(message, separators=(",", ":")).encode()
