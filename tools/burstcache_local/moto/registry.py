"""The repairs to moto 5.2.5, each by name, so that a test can leave one out and see its effect.

They depend on moto's internals: its version is pinned exactly, and every repair has a check that fails without it.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable

SKIPPED = "BURSTCACHE_LOCAL_SKIP_REPAIR"  # environment variable with the name of the one repair to leave out

_MODULES = (
    "dynamodb_repairs",
    "ec2_states",
    "event_repairs",
    "memory_repairs",
    "object_repairs",
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
    """Return what a repair is for."""
    return _REPAIRS[name].__doc__ or ""


def apply() -> None:
    """Repair the moto of this process, once."""
    _load()
    skipped = os.environ.get(SKIPPED)
    for name, function in _REPAIRS.items():
        if name != skipped and name not in _applied:
            function()
            _applied.add(name)


def _load() -> None:
    for module in _MODULES:
        importlib.import_module(f"burstcache_local.moto.{module}")
