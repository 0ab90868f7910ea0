"""A fork leaves its child with whatever other threads of the parent held, and without those threads."""

from __future__ import annotations

import multiprocessing
import threading

from burstcache.forks import Lock
from support.waiting import LIMIT_S


def _take(lock: Lock) -> None:
    with lock:
        pass


def test_a_lock_that_another_thread_holds_is_free_in_the_child_of_a_fork() -> None:
    lock, held, is_over = Lock(), threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            held.set()
            is_over.wait(LIMIT_S)

    holder = threading.Thread(target=hold)
    holder.start()
    held.wait(LIMIT_S)
    child = multiprocessing.get_context("fork").Process(target=_take, args=(lock,))
    child.start()
    child.join(LIMIT_S)
    try:
        assert child.exitcode == 0
        assert lock._lock.locked()  # the parent's is still held
    finally:
        child.kill()
        is_over.set()
        holder.join()
