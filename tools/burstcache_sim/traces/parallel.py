"""Parallel reading of a log's files by processes or a Dask cluster. Results are merged in file order."""

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
from burstcache_sim.traces.part import LogPart, PartReader
from burstcache_sim.traces.reading import LogFile, LogReader
from burstcache_sim.traces.remote import FETCHED_AT_ONCE
from burstcache_sim.traces.sources import Sources
from burstcache_sim.traces.store import Store

# Limits per task, in compressed bytes. A task fetches its S3 objects sequentially.
_TASK_FILES, _MIN_TASK_BYTES, _MAX_TASK_BYTES = 64, 2 << 20, 32 << 20
_TASKS_PER_WORKER = 8
_MIN_PARALLEL_BYTES = 8 << 20  # total, compressed; starting processes takes as long as reading this much
_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


def read_all(
    reader: LogReader, sources: Sources, *, processes: int, on_lines: Callable[[int], None], dask: str | None = None
) -> None:
    """Read all files into one reader.

    Args:
        reader: Provides the options and receives the requests.
        sources: The files.
        processes: Maximum number of concurrent processes.
        on_lines: Called from time to time with the number of lines read since the last call.
        dask: Scheduler address of a Dask cluster that reads instead of local processes, or None.

    Raises:
        BadLogError: A file cannot be read. The message names the first such file.
        InvalidSettingError: The cluster cannot be used.
    """
    if dask is not None:
        return _read_on_cluster(reader, sources, dask, on_lines)
    tasks = list(_tasks(sources.files, processes))
    workers = min(processes, len(tasks)) if _is_worthwhile(sources) else 1
    try:
        if workers == 1 and not sources.has_objects:
            for file in sources.files:
                reader.read(file, on_lines)
        elif _detect_format(reader, sources):
            _join(reader, _parts(reader, sources, tasks, workers), on_lines)
    finally:
        sources.close()
    return None


def _read_on_cluster(reader: LogReader, sources: Sources, address: str, on_lines: Callable[[int], None]) -> None:
    """Read all files on the workers of a cluster. The workers fetch S3 objects themselves."""
    try:
        with cluster_at(address) as cluster:
            if _detect_format(reader, sources):
                files = [file if file.etag else replace(file, path=file.path.absolute()) for file in sources.files]
                tasks = _tasks(files, cluster.threads)
                submit = cluster.submitter(_part_reader(reader, None))
                parts = _prefetched(tasks, submit, 2 * cluster.threads)
                _join(reader, parts, on_lines, on=f" (on a worker of {address})")
    finally:
        sources.close()


def _join(reader: LogReader, parts: Iterable[LogPart], on_lines: Callable[[int], None], on: str = "") -> None:
    """Merge parts in file order. `on` says where the parts were read, and is appended to error messages."""
    try:
        for part in parts:
            reader.columns.merge(part.columns)
            reader.counts.add(part.counts)
            on_lines(part.counts.rows)
    except BadLogError as error:
        raise BadLogError(f"{error}{on}") from error


def _part_reader(reader: LogReader, store: Store | None) -> PartReader:
    describes = reader.format.describes if reader.format else ""
    return PartReader(reader.options, reader.head, describes, reader.detected_in, store)


def _tasks(files: Sequence[LogFile], workers: int) -> Iterator[list[LogFile]]:
    """Group files into tasks: large enough to profit from cached field values, small enough to occupy all workers."""
    share_bytes = sum(file.size_bytes for file in files) // (workers * _TASKS_PER_WORKER)
    limit_bytes = max(_MIN_TASK_BYTES, min(_MAX_TASK_BYTES, share_bytes))
    task: list[LogFile] = []
    size_bytes = 0
    for file in files:
        is_full = len(task) == _TASK_FILES and bool(file.etag)
        if task and (is_full or size_bytes + file.size_bytes > limit_bytes):
            yield task
            task, size_bytes = [], 0
        task.append(file)
        size_bytes += file.size_bytes
    yield task


def _is_worthwhile(sources: Sources) -> bool:
    sizes_bytes = [file.size_bytes for file in sources.files]
    return all(sizes_bytes) and sum(sizes_bytes) >= _MIN_PARALLEL_BYTES


def _detect_format(reader: LogReader, sources: Sources) -> bool:
    """Detect the format from the first file with lines. Return False if no file has lines."""
    for file in sources.files:
        local = sources.fetched(file)
        try:
            if reader.detect_format(local):
                return True
        finally:
            if local is not file:
                local.path.unlink()
    return False


def _parts(reader: LogReader, sources: Sources, tasks: Iterable[list[LogFile]], workers: int) -> Iterator[LogPart]:
    """Yield the part for each task, in order. Fetch and read a bounded number of tasks ahead."""
    part_reader = _part_reader(reader, sources.store)

    def fetched(task: list[LogFile]) -> list[LogFile]:
        return [file if part_reader.is_stored(file) else sources.fetched(file) for file in task]

    with ThreadPoolExecutor(FETCHED_AT_ONCE) as threads:
        local_tasks = _prefetched(tasks, lambda task: threads.submit(fetched, task), FETCHED_AT_ONCE)
        try:
            if workers == 1:
                yield from map(part_reader.read, local_tasks)
            else:
                with ProcessPoolExecutor(workers, get_context("spawn"), _ignore_interrupts) as processes:
                    try:
                        yield from _prefetched(
                            local_tasks, lambda task: processes.submit(part_reader.read, task), 2 * workers
                        )
                    finally:
                        processes.shutdown(wait=False, cancel_futures=True)
        finally:
            threads.shutdown(wait=False, cancel_futures=True)


def _prefetched(
    items: Iterable[_Item], submit: Callable[[_Item], Future[_Result]], max_pending: int
) -> Iterator[_Result]:
    """Yield the result for each item, in order, with a bounded number of pending results."""
    pending: deque[Future[_Result]] = deque()
    for item in items:
        pending.append(submit(item))
        if len(pending) == max_pending:
            yield pending.popleft().result()
    while pending:
        yield pending.popleft().result()


def _ignore_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent process ends this one
