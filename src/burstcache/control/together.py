"""Doing several things at the same time, so that parts which do not answer are waited for once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from burstcache.adapters.clock import Clock
from burstcache.logs import logger
from burstcache.traces import carried


def do_together(clock: Clock, *works: Callable[[], Any]) -> list[Any]:
    """Return what each of these returns; all are done to their end, then the first error in this order is raised.

    The others are logged.
    """
    if len(works) < 2:
        return [work() for work in works]

    async def do() -> list[Any]:
        begun = [asyncio.to_thread(carried(work)) for work in works]
        return await asyncio.gather(*begun, return_exceptions=True)

    with asyncio.Runner(loop_factory=clock.new_event_loop) as runner:
        done = runner.run(do())
    if errors := [each for each in done if isinstance(each, BaseException)]:
        for further in errors[1:]:
            logger().warning("failed as well", reason=repr(further))
        raise errors[0]
    return done
