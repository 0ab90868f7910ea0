"""The thread that a client's pool lives in, where it cannot begin."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import threading
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from burstcache.client.pool import PoolThread
from burstcache.core.slices import Version
from burstcache.pool.open_pool import OpenPool
from support.clock import ManualClock
from support.waiting import LIMIT_S

_SOON_S = LIMIT_S / 10  # only a failing test waits that long
_VERSION = Version("key", "hash", '"1"', 3)


def _no_thread(*_: object) -> None:
    raise RuntimeError("can't start new thread")


def _no_file() -> asyncio.AbstractEventLoop:
    raise OSError(errno.EMFILE, "Too many open files")


def _fetch(start: int, into: memoryview) -> None:
    into[:] = b"abc"[start : start + len(into)]


@pytest.mark.parametrize(
    ("part", "fails"),
    [("_Running", _no_thread), ("_loop_factory", lambda: _no_file)],
    ids=["thread", "loop"],
)
def test_s3_serves_where_the_pool_gets_no_thread_or_loop_and_it_is_tried_again_later(
    part: str, fails: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, opened, answers = ManualClock(), threading.Event(), list[bool]()

    @contextlib.asynccontextmanager
    async def opener() -> AsyncIterator[OpenPool]:
        opened.set()
        raise OSError("no pool either")
        yield

    def read() -> None:
        answers.append(pool.read(_VERSION, 0, memoryview(bytearray(3)), _fetch, threads).result(LIMIT_S))

    with ThreadPoolExecutor(1) as threads:
        pool = PoolThread(opener, clock)
        with monkeypatch.context() as patched:
            patched.setattr(f"burstcache.client.pool.{part}", fails)
            reading = threading.Thread(target=read, daemon=True)
            reading.start()
            reading.join(LIMIT_S)
        assert answers == [False]
        assert not opened.is_set()

        clock.sleep(60)
        read()
        pool.close()

    assert opened.is_set()


def test_while_the_first_read_waits_for_the_pool_to_open_others_read_s3_and_a_close_begins(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("burstcache.client.pool._OPEN_LIMIT_S", float(LIMIT_S))
    is_opening, may_open, is_closing = threading.Event(), threading.Event(), threading.Event()
    answers: list[bool] = []

    @contextlib.asynccontextmanager
    async def opener() -> AsyncIterator[OpenPool]:
        is_opening.set()
        await asyncio.to_thread(may_open.wait, LIMIT_S)
        raise OSError("no pool after all")
        yield

    def read() -> None:
        answers.append(pool.read(_VERSION, 0, memoryview(bytearray(3)), _fetch, threads).result(LIMIT_S))

    def close() -> None:
        with pool._lock:
            is_closing.set()
        pool.close()

    with ThreadPoolExecutor(2) as threads:
        pool = PoolThread(opener, ManualClock())
        others = [threading.Thread(target=work, daemon=True) for work in (read, close)]
        first = threading.Thread(target=read, daemon=True)
        first.start()
        assert is_opening.wait(LIMIT_S)
        others[0].start()
        others[0].join(_SOON_S)
        answered = answers.copy()
        others[1].start()
        is_closed_meanwhile = is_closing.wait(_SOON_S)
        may_open.set()
        for thread in (first, *others):
            thread.join(LIMIT_S)

    assert answered == [False]
    assert is_closed_meanwhile
    assert answers == [False, False]
