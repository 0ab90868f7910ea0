"""Readers of the front door's answers, as Lambda returns them."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any


def body_of(answer: Mapping[str, Any]) -> bytes:
    """Return the object's bytes."""
    return base64.b64decode(answer["body"])


def error_of(answer: Mapping[str, Any]) -> str:
    """Return the error code of an answer."""
    return str(json.loads(answer["body"])["error"]["code"])
