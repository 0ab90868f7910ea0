"""Background tasks that callers do not await."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable


class Background:
    """Tasks that run until they finish or are cancelled. Not thread-safe: call all methods in one event loop."""

    def __init__(self) -> None:
        """Start without tasks."""
        self._tasks: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        """Return the number of running tasks."""
        return len(self._tasks)

    def begin(self, work: Awaitable[None]) -> None:
        """Start a task."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def at_rest(self) -> None:
        """Wait until all tasks have finished, including tasks that start during the wait."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    def cancel(self) -> None:
        """Cancel all tasks."""
        for task in self._tasks:
            task.cancel()
