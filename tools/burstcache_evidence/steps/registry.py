"""The registry of steps, in their order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from burstcache_evidence.steps.machines import boot, first_boot, interrupt
from burstcache_evidence.steps.measurements import measure, memory, reports
from burstcache_evidence.steps.observations import metrics, transitions
from burstcache_evidence.steps.programs import gateway, pool, state
from burstcache_evidence.steps.requests import bulk, burst, read, self_test, write
from burstcache_evidence.steps.target import Target

Step = Callable[[Target], dict[str, Any]]

STEPS: dict[str, Step] = {
    "self-test": self_test,
    "first-boot": first_boot,
    "reports": reports,
    "read": read,
    "write": write,
    "gateway": gateway,
    "boot": boot,
    "burst": burst,
    "interrupt": interrupt,
    "state": state,
    "pool": pool,
    "bulk": bulk,
    "measure": measure,
    "memory": memory,
    "metrics": metrics,
}
# Once the stack was updated. The stack is paused afterwards.
LAST_STEPS: dict[str, Step] = {"transitions": transitions}
