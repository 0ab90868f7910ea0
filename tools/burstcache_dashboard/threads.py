"""Work that takes time, in threads that nobody waits for when the server ends, as one does for asyncio's own."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

_T = TypeVar("_T")


def started(work: Callable[[], _T]) -> Future[_T]:
    """Let a thread of its own do `work`; return what will have its result."""
    done: Future[_T] = Future()

    def run() -> None:
        try:
            done.set_result(work())
        except Exception as error:
            done.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return done


async def in_thread(work: Callable[..., _T], *args: Any) -> _T:
    """Return what `work` returns in a thread of its own; raise what it raises."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[_T] = loop.create_future()

    def settle(result: _T | None, error: Exception | None) -> None:
        if done.done():  # nobody waits any more
            return
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(result)  # type: ignore[arg-type]  # without an error it is what `work` has returned

    def run() -> None:
        result, failure = None, None
        try:
            result = work(*args)
        except Exception as error:
            failure = error
        with contextlib.suppress(RuntimeError):  # the server has ended meanwhile
            loop.call_soon_threadsafe(settle, result, failure)

    threading.Thread(target=run, daemon=True).start()
    return await done
