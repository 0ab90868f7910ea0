"""The registry of repairs, which are monkey patches for moto 5.2.5. A test can skip a repair to observe its effect.

Repairs depend on moto's internals. moto's version is therefore pinned, and each repair has a test that fails without
the repair.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable

SKIPPED = "BURSTCACHE_LOCAL_SKIP_REPAIR"  # environment variable that names a repair to skip

_MODULES = (
    "dynamodb_repairs",
    "ec2_states",
    "event_repairs",
    "memory_repairs",
    "object_repairs",
    "refused_writes",
    "task_states",
    "version_repairs",
)

Repair = Callable[[], None]
_REPAIRS: dict[str, Repair] = {}
_applied: set[str] = set()


def repair(function: Repair) -> Repair:
    """Register a repair under its function's name."""
    _REPAIRS[function.__name__] = function
    return function


def names() -> list[str]:
    """Return the names of all repairs."""
    _load()
    return sorted(_REPAIRS)


def purpose(name: str) -> str:
    """Return a repair's docstring."""
    return _REPAIRS[name].__doc__ or ""


def apply() -> None:
    """Repair moto in this process. Idempotent."""
    _load()
    skipped = os.environ.get(SKIPPED)
    for name, function in _REPAIRS.items():
        if name != skipped and name not in _applied:
            function()
            _applied.add(name)


def _load() -> None:
    for module in _MODULES:
        importlib.import_module(f"burstcache_local.moto.{module}")
