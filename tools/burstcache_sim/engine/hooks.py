"""What the engine of shared nodes asks of a policy; numba finds the answer at compile time, by the type of its row.

The policy called NAME is compiled in `engine.NAME`: `one_key` runs it over one key, and functions with the names and
parameters below decide where keys share nodes. So the engine is compiled once per policy, with no branch between them.
A module with a `replay` of its own (`engine.key_hazard`) replays one key and many by itself instead.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any, NamedTuple, TypeVar, cast

from burstcache_sim.engine.compiled import numba
from burstcache_sim.engine.shared_world import World

_Function = TypeVar("_Function", bound=Callable[..., Any])


def decide(w: World, p: NamedTuple, key: int, at_us: int, tier: int) -> int:
    """Handle a key's newest request; return what it triggers, a sum of `START` and `JOIN`."""
    raise NotImplementedError  # only compiled code calls it


def act(w: World, p: NamedTuple, key: int, at_us: int, action: int) -> None:
    """Carry out what a request triggers."""
    raise NotImplementedError


def ready(w: World, p: NamedTuple, node: int, at_us: int) -> None:
    """Set the first look at a node that runs from now on."""
    raise NotImplementedError


def look(w: World, p: NamedTuple, node: int, at_us: int) -> None:
    """Judge a running node: stop it or set the next look."""
    raise NotImplementedError


@cache
def engine_of(row: type) -> ModuleType:
    """Return the engine of a policy by the type of its row: both modules have one name."""
    return import_module(f"burstcache_sim.engine.{row.__module__.rpartition('.')[2]}")


def _compiled_as(hook: Callable[..., Any]) -> Callable[[_Function], _Function]:
    return cast(Callable[[_Function], _Function], numba.extending.overload(hook, inline="always", strict=False))


@_compiled_as(decide)
def _decide(w: Any, p: Any, key: Any, at_us: Any, tier: Any) -> Any:
    return engine_of(p.instance_class).decide.py_func


@_compiled_as(act)
def _act(w: Any, p: Any, key: Any, at_us: Any, action: Any) -> Any:
    return engine_of(p.instance_class).act.py_func


@_compiled_as(ready)
def _ready(w: Any, p: Any, node: Any, at_us: Any) -> Any:
    return engine_of(p.instance_class).ready.py_func


@_compiled_as(look)
def _look(w: Any, p: Any, node: Any, at_us: Any) -> Any:
    return engine_of(p.instance_class).look.py_func
