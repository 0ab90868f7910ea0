"""What a function answers to a self-test; no other event imports what it takes."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

from burstcache.core.messages.self_test import SelfTested, is_self_test

if TYPE_CHECKING:
    from burstcache.control.self_test import Function

_Answer = TypeVar("_Answer")
_Handler = Callable[[dict[str, Any], Any], _Answer]

_LEFT_FOR_ANSWER_S = 2.0
_LONGEST_S = 30.0  # for a function that may run for longer


def answers_self_test(function: Function) -> Callable[[_Handler[_Answer]], _Handler[_Answer]]:
    """Have a handler answer a self-test. Only who may invoke the function by its name can ask for one."""

    def wrapped(handler: _Handler[_Answer]) -> _Handler[_Answer]:
        @wraps(handler)
        def handle(event: dict[str, Any], context: Any) -> Any:
            return _self_test(function, event, context) if is_self_test(event) else handler(event, context)

        return handle

    return wrapped


def _self_test(function: Function, event: Mapping[str, Any], context: Any) -> SelfTested:
    """Try every part that a function works with, by clients of its own profile."""
    from burstcache.adapters.clients import Clients
    from burstcache.adapters.clock import SystemClock
    from burstcache.control.self_test import trials_of
    from burstcache.control.trials import run

    clients, clock = Clients("read" if function == "proxy" else "control"), SystemClock()
    trials = trials_of(function, os.environ, clients, clock, event["run"])
    remaining_s = context.get_remaining_time_in_millis() / 1000
    return run(trials, clock, within_s=min(remaining_s - _LEFT_FOR_ANSWER_S, _LONGEST_S))
