"""Main-thread times of a page, from a trace of Chromium."""

from __future__ import annotations

from typing import Any

from benchmarks.support.main_thread import MainThread, fill

_PAGE, _OTHER = (7, 1), (7, 2)


def task(thread: tuple[int, int], at_us: int, cpu_us: int, name: str = "ThreadControllerImpl::RunTask") -> Any:
    pid, tid = thread
    return {"name": name, "ph": "X", "pid": pid, "tid": tid, "ts": at_us, "dur": 2 * cpu_us, "tdur": cpu_us}


def update(name: str, at_us: int) -> Any:
    return {"name": name, "ph": "b", "pid": _PAGE[0], "tid": _PAGE[1], "ts": at_us}


def test_an_update_takes_all_tasks_of_its_thread_up_to_the_next_one() -> None:
    found = MainThread()

    fill(found, [
        task(_PAGE, 0, 500), task(_PAGE, 1_000, 4_000), update("all", 2_000),
        task(_PAGE, 20_000, 3_000), task(_OTHER, 20_000, 9_000), task(_PAGE, 21_000, 1_000, "Layout"),
        task(_PAGE, 50_000, 6_000), update("change", 51_000),
    ])  # fmt: skip

    assert found.updates_ms == [7.0, 6.0]
    assert found.tasks_ms == [0.5, 4.0, 3.0, 6.0]
    assert found.text().endswith("median 6.5, at most 7.0 ms, largest task 6 ms")


def test_a_page_that_was_never_updated_has_no_updates() -> None:
    found = MainThread()

    fill(found, [task(_PAGE, 0, 500)])

    assert found.text() == "0 updates of the main thread's time, none, largest task 0 ms"
