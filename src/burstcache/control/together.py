"""Doing several things at the same time, so that parts which do not answer are waited for once."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from typing import Any

from burstcache.adapters.clock import Clock
from burstcache.logs import logger
from burstcache.traces import carried


def do_together(
    clock: Clock, *works: Callable[[], Any], late_s: float = math.inf, if_late: Callable[[], object] | None = None
) -> list[Any]:
    """Return what each of these returns; all are done to their end, then the first error in this order is raised.

    The others are logged.

    Args:
        clock: Tells the time.
        works: What is to be done.
        late_s: From when on they are late if one of them is not done [s].
        if_late: What is done then, too, whatever it returns; None: nothing.
    """
    if len(works) < 2 and if_late is None:
        return [work() for work in works]

    async def do() -> list[Any]:
        begun = [asyncio.ensure_future(asyncio.to_thread(carried(work))) for work in works]
        if if_late is not None:
            _, late = await asyncio.wait(begun, timeout=late_s)
            begun += [asyncio.ensure_future(asyncio.to_thread(carried(if_late)))] if late else []
        return await asyncio.gather(*begun, return_exceptions=True)

    with asyncio.Runner(loop_factory=clock.new_event_loop) as runner:
        done = runner.run(do())
    if errors := [each for each in done if isinstance(each, BaseException)]:
        for further in errors[1:]:
            logger().warning("failed as well", reason=repr(further))
        raise errors[0]
    return done[: len(works)]
