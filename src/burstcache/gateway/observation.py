"""Observation of a gateway's process: its metrics, its access log, and the paths that show how it is."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from functools import partial

from burstcache.adapters.slice_directory import used_bytes
from burstcache.client.client import Client
from burstcache.forks import Lock
from burstcache.gateway.access_log import AccessLog
from burstcache.gateway.own_paths import OwnPaths
from burstcache.gateway.prometheus import FAMILIES, GatewayMetrics
from burstcache.gateway.recorder import Recorder, described
from burstcache.gateway.s3_monitor import S3Monitor
from burstcache.gateway.s3_requests import Targets

_EVERY_S = 1.0
_DISK_EVERY = 10  # of the above, since the size of the disk takes a few hundred system calls
_MEMORY, _MEMORY_LIMIT = FAMILIES["memory_bytes"].first, FAMILIES["memory_limit_bytes"].first
_DISK, _LOST = FAMILIES["disk_bytes"].first, FAMILIES["lost_log_lines_total"].first
_FAILED_INVALIDATIONS = FAMILIES["failed_invalidations_total"].first


class Observation:
    """Watches one process of a gateway.

    Attributes:
        recorder: Counts connections and requests.
        s3: Counts requests to S3.
        own_paths: Answers for the gateway's own paths.
    """

    def __init__(
        self,
        metrics: GatewayMetrics,
        process: int,
        targets: Targets,
        *,
        names: Sequence[str],
        accepts_unsigned: bool,
        log_file: str,
    ) -> None:
        """Begin with the counters of a former process of this index.

        Args:
            metrics: The metrics of all processes.
            process: The index of this process.
            targets: Parses request targets.
            names: Names of the gateway.
            accepts_unsigned: Whether unsigned requests for buckets are answered.
            log_file: The access log. Empty: none. `-`: standard output.

        Raises:
            OSError: The access log cannot be opened.
        """
        self._values = metrics.start_process(process)
        self._lock = Lock()
        self._log = AccessLog(log_file, partial(described, targets=targets), self._lose_lines) if log_file else None
        self.recorder = Recorder(self._values, targets, self._log)
        self.s3 = S3Monitor(self._values)
        self._metrics = metrics
        self._client: Client | None = None
        self.own_paths = OwnPaths(self._text, names, accepts_unsigned=accepts_unsigned)

    def note_failed_invalidation(self) -> None:
        """Count a write after which the stack's copies could not be dropped."""
        self._values[_FAILED_INVALIDATIONS] += 1

    def reopen_log(self) -> None:
        """Open the access log anew, after its file was renamed."""
        if self._log is not None:
            self._log.reopen()

    async def watch(self, client: Client, disk: str) -> None:
        """Measure the caches until the task is cancelled.

        Args:
            client: Has the caches.
            disk: The directory of the disk tier, if this process is to measure it. Empty: not.
        """
        self._client = client
        rounds = 0
        while True:
            self._measure_memory()
            if disk and rounds % _DISK_EVERY == 0:
                self._values[_DISK] = await asyncio.to_thread(used_bytes, os.path.abspath(disk))
            rounds += 1
            await asyncio.sleep(_EVERY_S)

    def close(self) -> None:
        """Write what is left of the access log."""
        if self._log is not None:
            self._log.close()

    def _text(self) -> str:
        self._measure_memory()
        return self._metrics.text()

    def _measure_memory(self) -> None:
        memory = None if self._client is None else self._client.reader.local_cache.memory
        if memory is not None:
            self._values[_MEMORY], self._values[_MEMORY_LIMIT] = memory.cache.size_bytes, memory.cache.max_bytes

    def _lose_lines(self, count: int) -> None:
        with self._lock:
            self._values[_LOST] += count
