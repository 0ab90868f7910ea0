"""The self-test: what a function is asked to try, and what it answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypedDict

from burstcache.core.keys import key_hash

SELF_TEST: Literal["self_test"] = "self_test"


class SelfTest(TypedDict):
    """Each function that works with other parts of the stack: try them all."""

    op: Literal["self_test"]
    run: str  # the same for all functions, and for no other self-test: what they say over the relay is about it


class Tried(TypedDict):
    """One part that a function works with, where it was called, and what came of it."""

    part: str
    endpoint: str  # host and port
    duration_ms: int
    problem: str  # empty: it works; else what happened and what to do


class SelfTested(TypedDict):
    """All that a function has tried."""

    tried: list[Tried]


class TriedBy(Tried):
    """What one of the stack's functions has tried."""

    function: str


class StackTested(TypedDict):
    """All that the functions of a stack have tried."""

    tried: list[TriedBy]


def is_self_test(event: Mapping[str, Any]) -> bool:
    """Whether an event asks for a self-test: no front door, bus or schedule sends one of these fields alone."""
    return event.get("op") == SELF_TEST and event.keys() == SelfTest.__annotations__.keys()


def hash_of_run(run: str) -> str:
    """Return the hash of a key that is no object's, for what functions say over the relay in a self-test."""
    return key_hash(f"{SELF_TEST}/{run}")


def problems(tested: StackTested) -> list[str]:
    """Return a sentence for each thing that fails, for all functions that it concerns."""
    concerned: dict[tuple[str, str, str], list[str]] = {}
    for tried in tested["tried"]:
        if tried["problem"]:
            what = (tried["part"], tried["endpoint"], tried["problem"])
            concerned.setdefault(what, []).append(tried["function"])
    return [
        f"{', '.join(functions)}: {part} at {endpoint}: {problem}"
        for (part, endpoint, problem), functions in concerned.items()
    ]
