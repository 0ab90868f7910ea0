"""Limits of the local Lambda service."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path

_ENVIRONMENTS_PER_CORE = 8
_ENVIRONMENT_BYTES = 40 << 20  # measured, including a share of the shared pages
_CROWDED_FUNCTIONS = 4  # maximum number of functions that reach the limit at the same time


def _environments_by_machine() -> int:
    """Return the number of concurrent environments per function that this machine's cores and memory support."""
    (available_kb,) = re.findall(r"^MemAvailable: *(\d+) kB", Path("/proc/meminfo").read_text(), re.MULTILINE)
    by_memory = int(available_kb) * 1024 // (_CROWDED_FUNCTIONS * _ENVIRONMENT_BYTES)
    return max(4, min(_ENVIRONMENTS_PER_CORE * (os.cpu_count() or 1), by_memory))


@dataclass(frozen=True, slots=True)
class LambdaLimits:
    """Limits that differ between AWS accounts, and shortened delays."""

    concurrency: int = 1000  # a new AWS account has 10
    environments: int = field(default_factory=_environments_by_machine)  # per function; AWS has no such limit
    idle_s: float = 300.0  # several minutes on AWS, which does not document the value
    retry_delays_s: tuple[float, ...] = (1.0, 2.0)  # 60 and 120 on AWS
    throttle_delay_s: float = 1.0  # doubles up to 5 min, as on AWS
