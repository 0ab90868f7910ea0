"""The form in which messages travel."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def encode(message: Mapping[str, Any]) -> bytes:
    """Return a message as it goes over the relay and the bus."""
    return json.dumps(message, separators=(",", ":")).encode()
