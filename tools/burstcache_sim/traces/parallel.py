"""Several processes read the files of a log; the order of the files decides the result, not the order of reading."""

from __future__ import annotations

import signal
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from typing import TypeVar

from burstcache_sim.traces.cluster import cluster_at
from burstcache_sim.traces.errors import BadLogError
from burstcache_sim.traces.part import Part, Settled
from burstcache_sim.traces.reading import LogFile, Reading
from burstcache_sim.traces.remote import FETCHED_AT_ONCE
from burstcache_sim.traces.sources import Sources
from burstcache_sim.traces.store import Store

_TASK_FILES, _LEAST_TASK_BYTES, _MOST_TASK_BYTES = 64, 2 << 20, 32 << 20  # what a process reads at a time, packed
_TASKS_PER_WORKER = 8
_WORTH_BYTES = 8 << 20  # in all; starting processes takes as long as reading this much, packed
_Item = TypeVar("_Item")
_Made = TypeVar("_Made")


def read_all(
    reading: Reading, sources: Sources, *, processes: int, on_lines: Callable[[int], None], dask: str | None = None
) -> None:
    """Read all files into one reading.

    Args:
        reading: What was asked for, and where requests go.
        sources: The files.
        processes: How many may read at the same time.
        on_lines: Called now and then with the number of lines read since the last call.
        dask: Address of a Dask cluster's scheduler, whose workers read instead of processes; None for none.

    Raises:
        BadLogError: The first file, in their order, that cannot be read.
        InvalidSettingError: The cluster cannot be used.
    """
    if dask is not None:
        return _read_on_cluster(reading, sources, dask, on_lines)
    tasks = list(_tasks(sources.files, processes))
    workers = min(processes, len(tasks)) if _is_worth(sources) else 1
    try:
        if workers == 1 and not sources.has_objects:
            for file in sources.files:
                reading.read(file, on_lines)
        elif _settle(reading, sources):
            _join(reading, _parts(reading, sources, tasks, workers), on_lines)
    finally:
        sources.close()
    return None


def _read_on_cluster(reading: Reading, sources: Sources, address: str, on_lines: Callable[[int], None]) -> None:
    """Have the workers of a cluster read all files; they fetch objects of S3 themselves."""
    try:
        with cluster_at(address) as cluster:
            if _settle(reading, sources):
                files = [file if file.etag else replace(file, path=file.path.absolute()) for file in sources.files]
                tasks = _tasks(files, cluster.threads)
                submit = cluster.submit(_settled(reading, None))
                _join(reading, _ahead(tasks, submit, 2 * cluster.threads), on_lines, on=f" (on a worker of {address})")
    finally:
        sources.close()


def _join(reading: Reading, parts: Iterable[Part], on_lines: Callable[[int], None], on: str = "") -> None:
    """Add what was found elsewhere, in the order of the files; an error says where."""
    try:
        for part in parts:
            reading.columns.merge(part.columns)
            reading.counts.add(part.counts)
            on_lines(part.counts.rows)
    except BadLogError as error:
        raise BadLogError(f"{error}{on}") from error


def _settled(reading: Reading, store: Store | None) -> Settled:
    describes = reading.format.describes if reading.format else ""
    return Settled(reading.asked, reading.head, describes, reading.guessed_by, store)


def _tasks(files: Sequence[LogFile], workers: int) -> Iterator[list[LogFile]]:
    """Yield what one process reads at a time: much, for it remembers what texts mean, but enough tasks for all."""
    share_bytes = sum(file.size_bytes for file in files) // (workers * _TASKS_PER_WORKER)
    most_bytes = max(_LEAST_TASK_BYTES, min(_MOST_TASK_BYTES, share_bytes))
    task: list[LogFile] = []
    size_bytes = 0
    for file in files:
        is_full = len(task) == _TASK_FILES and bool(file.etag)  # objects are fetched one after the other
        if task and (is_full or size_bytes + file.size_bytes > most_bytes):
            yield task
            task, size_bytes = [], 0
        task.append(file)
        size_bytes += file.size_bytes
    yield task


def _is_worth(sources: Sources) -> bool:
    sizes_bytes = [file.size_bytes for file in sources.files]
    return all(sizes_bytes) and sum(sizes_bytes) >= _WORTH_BYTES


def _settle(reading: Reading, sources: Sources) -> bool:
    """Settle the format by the first file that has lines; False if none has."""
    for file in sources.files:
        here = sources.fetched(file)
        try:
            if reading.settle(here):
                return True
        finally:
            if here is not file:
                here.path.unlink()
    return False


def _parts(reading: Reading, sources: Sources, tasks: Iterable[list[LogFile]], workers: int) -> Iterator[Part]:
    """Yield what each task found, in their order; fetch and read a bounded number of tasks ahead."""
    settled = _settled(reading, sources.store)

    def fetched(task: list[LogFile]) -> list[LogFile]:
        return [file if settled.is_kept(file) else sources.fetched(file) for file in task]

    with ThreadPoolExecutor(FETCHED_AT_ONCE) as threads:
        here = _ahead(tasks, lambda task: threads.submit(fetched, task), FETCHED_AT_ONCE)
        try:
            if workers == 1:
                yield from map(settled.read, here)
            else:
                with ProcessPoolExecutor(workers, get_context("spawn"), _ignore_interrupts) as processes:
                    try:
                        yield from _ahead(here, lambda task: processes.submit(settled.read, task), 2 * workers)
                    finally:
                        processes.shutdown(wait=False, cancel_futures=True)
        finally:
            threads.shutdown(wait=False, cancel_futures=True)


def _ahead(items: Iterable[_Item], start: Callable[[_Item], Future[_Made]], most: int) -> Iterator[_Made]:
    """Yield what is made of each item, in their order, with a bounded number being made."""
    waiting: deque[Future[_Made]] = deque()
    for item in items:
        waiting.append(start(item))
        if len(waiting) == most:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()


def _ignore_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that started this one ends it
