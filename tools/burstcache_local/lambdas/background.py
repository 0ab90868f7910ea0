"""Work that goes on while its caller does something else."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable


class Background:
    """Tasks that nobody waits for until all are to be at rest. All methods belong to one event loop."""

    def __init__(self) -> None:
        """Do nothing yet."""
        self._tasks: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        """Return how many go on."""
        return len(self._tasks)

    def begin(self, work: Awaitable[None]) -> None:
        """Begin a task."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def at_rest(self) -> None:
        """Return when none goes on."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    def cancel(self) -> None:
        """Break all of them off."""
        for task in self._tasks:
            task.cancel()
