"""Daemon threads for blocking work. Unlike asyncio's default executor, these threads do not delay a shutdown."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

_T = TypeVar("_T")


def started(work: Callable[[], _T]) -> Future[_T]:
    """Run `work` in a new thread, and return a future for the result."""
    done: Future[_T] = Future()

    def run() -> None:
        try:
            done.set_result(work())
        except Exception as error:
            done.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return done


async def in_thread(work: Callable[..., _T], *args: Any) -> _T:
    """Run `work` in a new thread, and return the result or raise the exception."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[_T] = loop.create_future()

    def settle(result: _T | None, error: Exception | None) -> None:
        if done.done():  # the caller was cancelled
            return
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(result)  # type: ignore[arg-type]  # set unless there is an error

    def run() -> None:
        result, failure = None, None
        try:
            result = work(*args)
        except Exception as error:
            failure = error
        with contextlib.suppress(RuntimeError):  # the loop has been closed
            loop.call_soon_threadsafe(settle, result, failure)

    threading.Thread(target=run, daemon=True).start()
    return await done
