"""The registry of steps, in their order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from burstcache_evidence.steps.machines import boot, interrupt, state
from burstcache_evidence.steps.measurements import measure
from burstcache_evidence.steps.observations import metrics
from burstcache_evidence.steps.requests import burst, read, self_test, write
from burstcache_evidence.steps.target import Target

STEPS: dict[str, Callable[[Target], dict[str, Any]]] = {
    "self-test": self_test,
    "read": read,
    "write": write,
    "boot": boot,
    "burst": burst,
    "interrupt": interrupt,
    "state": state,
    "measure": measure,
    "metrics": metrics,
}
