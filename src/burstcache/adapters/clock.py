"""The wall clock, in the one unit that rows and policy use."""

from __future__ import annotations

import time


def now_us() -> int:
    """Return the time since the epoch [us]."""
    return time.time_ns() // 1000
