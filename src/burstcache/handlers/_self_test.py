"""The self-test of a function. Its dependencies are imported only for self-test events."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

from burstcache.core.messages.self_test import SelfTestResult, is_self_test

if TYPE_CHECKING:
    from burstcache.control.self_test import Function

_Answer = TypeVar("_Answer")
_Handler = Callable[[dict[str, Any], Any], _Answer]

_LEFT_FOR_ANSWER_S = 2.0
_LONGEST_S = 30.0  # for functions with a longer timeout


def answers_self_test(function: Function) -> Callable[[_Handler[_Answer]], _Handler[_Answer]]:
    """Make a handler answer self-tests. Only callers with permission to invoke the function can send one."""

    def wrapped(handler: _Handler[_Answer]) -> _Handler[_Answer]:
        @wraps(handler)
        def handle(event: dict[str, Any], context: Any) -> Any:
            return _self_test(function, event, context) if is_self_test(event) else handler(event, context)

        return handle

    return wrapped


def _self_test(function: Function, event: Mapping[str, Any], context: Any) -> SelfTestResult:
    """Check every part that a function depends on."""
    from burstcache.adapters.clients import Clients
    from burstcache.adapters.clock import SystemClock
    from burstcache.control.health_checks import run
    from burstcache.control.self_test import checks_of

    clients, clock = Clients("read" if function == "proxy" else "control"), SystemClock()
    checks = checks_of(function, os.environ, clients, clock, event["run"])
    remaining_s = context.get_remaining_time_in_millis() / 1000
    return run(checks, clock, within_s=min(remaining_s - _LEFT_FOR_ANSWER_S, _LONGEST_S))
