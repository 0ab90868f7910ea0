"""Limits of the local Lambda service."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path

_ENVIRONMENTS_PER_CORE = 8
_ENVIRONMENT_BYTES = 40 << 20  # measured: its share of the pages that it has in common with the others included
_CROWDED_FUNCTIONS = 4  # as many of the template's functions may be as busy as they can at once


def _environments_by_machine() -> int:
    """Return how many environments of one function this machine can serve at once."""
    (available_kb,) = re.findall(r"^MemAvailable: *(\d+) kB", Path("/proc/meminfo").read_text(), re.MULTILINE)
    by_memory = int(available_kb) * 1024 // (_CROWDED_FUNCTIONS * _ENVIRONMENT_BYTES)
    return max(4, min(_ENVIRONMENTS_PER_CORE * (os.cpu_count() or 1), by_memory))


@dataclass(frozen=True, slots=True)
class LambdaLimits:
    """Limits that differ between accounts, and delays that a demonstration should not wait for."""

    concurrency: int = 1000  # a new AWS account has 10
    environments: int = field(default_factory=_environments_by_machine)  # of one function; AWS has no such limit
    idle_s: float = 300.0  # AWS does not say; minutes
    retry_delays_s: tuple[float, ...] = (1.0, 2.0)  # AWS waits 60 and 120
    throttle_delay_s: float = 1.0  # doubles up to five minutes, as on AWS
