"""Doing several things at the same time, so that parts which do not answer are waited for once."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from contextvars import copy_context
from functools import partial
from typing import Any

from burstcache.adapters.clock import Clock
from burstcache.logs import logger
from burstcache.traces import carried


def do_together(
    clock: Clock, *works: Callable[[], Any], late_s: float | None = None, if_late: Callable[[], object] | None = None
) -> list[Any]:
    """Return what each of these returns; all are done to their end, then the first error in this order is raised.

    The others are logged.

    Args:
        clock: Tells the time, and starts the works.
        works: What is to be done.
        late_s: From when on they are late if one of them is not done [s]; None: they never are.
        if_late: What is done then, too, whatever it returns; None: nothing.
    """
    if len(works) < 2 and if_late is None:
        return [work() for work in works]
    begun = [_begin(clock, work) for work in works]
    if if_late is not None and not clock.wait(begun, late_s):
        begun.append(_begin(clock, if_late))
    clock.wait(begun)
    if errors := [error for each in begun if (error := each.exception())]:
        for further in errors[1:]:
            logger().warning("failed as well", reason=repr(further))
        raise errors[0]
    return [each.result() for each in begun[: len(works)]]


def _begin(clock: Clock, work: Callable[[], Any]) -> Future[Any]:
    """Begin some work in the caller's context."""
    return clock.start(partial(copy_context().run, carried(work)))
