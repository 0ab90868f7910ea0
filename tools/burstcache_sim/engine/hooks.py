"""Policy hooks of the engine for shared nodes. numba resolves a hook at compile time by the type of the policy's row.

The compiled form of policy `policies.NAME` is the module `engine.NAME`. Its function `one_key` replays a single key.
Its functions with the names and parameters below decide for keys that share nodes. The engine is thus compiled once
per policy, without branches between policies. A module's own `prepare` function replaces `one_key` and these hooks
(`engine.run.Preparation`).
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
    """Handle a key's newest request and return the action that it triggers, a sum of `START` and `JOIN`."""
    raise NotImplementedError  # only compiled code calls it


def act(w: World, p: NamedTuple, key: int, at_us: int, action: int) -> None:
    """Carry out a triggered action."""
    raise NotImplementedError


def handle_ready(w: World, p: NamedTuple, node: int, at_us: int) -> None:
    """Schedule the first check of a node that has just become ready."""
    raise NotImplementedError


def check_node(w: World, p: NamedTuple, node: int, at_us: int) -> None:
    """Check a running node: stop it or schedule the next check."""
    raise NotImplementedError


@cache
def engine_of(row: type) -> ModuleType:
    """Import the engine of a policy by the type of its row: `engine.NAME` for `policies.NAME`."""
    return import_module(row.__module__.replace(".policies.", ".engine."))


def _compiled_as(hook: Callable[..., Any]) -> Callable[[_Function], _Function]:
    return cast(Callable[[_Function], _Function], numba.extending.overload(hook, inline="always", strict=False))


@_compiled_as(decide)
def _decide(w: Any, p: Any, key: Any, at_us: Any, tier: Any) -> Any:
    return engine_of(p.instance_class).decide.py_func


@_compiled_as(act)
def _act(w: Any, p: Any, key: Any, at_us: Any, action: Any) -> Any:
    return engine_of(p.instance_class).act.py_func


@_compiled_as(handle_ready)
def _handle_ready(w: Any, p: Any, node: Any, at_us: Any) -> Any:
    return engine_of(p.instance_class).handle_ready.py_func


@_compiled_as(check_node)
def _check_node(w: Any, p: Any, node: Any, at_us: Any) -> Any:
    return engine_of(p.instance_class).check_node.py_func
