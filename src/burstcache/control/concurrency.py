"""Concurrency: calls run in parallel, so that unreachable parts cost the longest timeout instead of the sum."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from contextvars import copy_context
from functools import partial
from typing import Any

from burstcache.adapters.clock import Clock
from burstcache.logs import logger
from burstcache.traces import with_trace_context


def run_concurrently(
    clock: Clock, *calls: Callable[[], Any], late_s: float | None = None, if_late: Callable[[], object] | None = None
) -> list[Any]:
    """Run calls concurrently, and return their results in order once all have finished.

    If calls fail, raise the first error in order, and log the others. A failure of `if_late` is only logged: it bridges
    the wait for the calls, and must not fail what they have done.

    Args:
        clock: Starts the calls and waits for them.
        calls: The calls.
        late_s: The time after which an unfinished call is late [s], or None for no limit.
        if_late: An additional call, started when a call is late. Its result is ignored, and it also finishes before
            the return. If None, there is no such call.
    """
    if len(calls) < 2 and if_late is None:
        return [call() for call in calls]
    futures = [_start(clock, call) for call in calls]
    if if_late is not None and not clock.wait(futures, late_s):
        bridge = _start(clock, if_late)
        clock.wait([*futures, bridge])
        if error := bridge.exception():
            logger().warning("the call for late ones failed", reason=repr(error))
    clock.wait(futures)
    if errors := [error for future in futures if (error := future.exception())]:
        for further in errors[1:]:
            logger().warning("failed as well", reason=repr(further))
        raise errors[0]
    return [future.result() for future in futures]


def _start(clock: Clock, call: Callable[[], Any]) -> Future[Any]:
    """Start a call in the caller's context."""
    return clock.start(partial(copy_context().run, with_trace_context(call)))
