"""The backend of a client: reader, writer, slices and threads of one process."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from burstcache.adapters.clock import SystemClock
from burstcache.adapters.object_store import ObjectStore
from burstcache.adapters.single_flight import SingleFlight
from burstcache.client.bounds import Bounds
from burstcache.client.configuration import ClientConfiguration
from burstcache.client.pool import PoolThread
from burstcache.core.slices import SliceNames
from burstcache.serve.factory import make_batches, make_reader, make_writer
from burstcache.serve.large_objects import LargeObjects
from burstcache.serve.memory_tier import Ticket
from burstcache.serve.part_source import PartSource
from burstcache.serve.read_stats import ReadCounter
from burstcache.serve.slice_memory import LEAST_MEMORY_BYTES, SliceMemory
from burstcache.serve.slices import Slices
from burstcache.web.response import Response

if TYPE_CHECKING:
    from burstcache.adapters.slice_files import SliceFiles

_MOST_BODY_BYTES = 16 << 20  # the client reads more bytes faster over several connections
THREADS = 64  # parallel reads of one client, for `get_many` and for an AsyncClient


class Backend:
    """The parts of a client that a process must not share with its parent after a fork."""

    def __init__(self, configuration: ClientConfiguration, bounds: Bounds, counter: ReadCounter) -> None:
        """Create the parts for this process. `counter` counts its reads."""
        self._pid = os.getpid()
        self._is_closed = False
        settings, clients, clock = configuration.settings, configuration.make_clients(), SystemClock()
        pool = None if configuration.pool is None else PoolThread(configuration.pool, clock)
        disk = _slice_files(bounds) if bounds.disk else None
        keeps_slices = bounds.memory_bytes >= LEAST_MEMORY_BYTES or disk is not None
        reads_slices = pool is not None or keeps_slices
        # A pool counts the reads of its slices, so it has to see the first one.
        most_body_bytes = _MOST_BODY_BYTES if keeps_slices and pool is None else 0
        self.reader = make_reader(
            settings,
            clients,
            clock,
            publisher=make_batches(settings, clients, clock) if settings.bus_name else None,
            larger="leave" if reads_slices else "send",
            most_body_bytes=most_body_bytes,
            memory_bytes=bounds.memory_bytes,
            max_stale_s=bounds.max_stale_s,
            requested=counter.count_request,
        )
        self.s3 = clients.s3
        self.writer = make_writer(settings, clients, self.reader, requested=counter.count_request)
        store = ObjectStore(settings.bucket_name, clients.s3, requested=counter.count_request)
        source = PartSource(store, pool, self.reader.forget, clock)
        names = SliceNames(clients.s3.meta.endpoint_url, settings.bucket_name)
        memory = self.reader.local_cache.memory
        has_memory = memory is not None and memory.cache.max_bytes >= LEAST_MEMORY_BYTES
        slice_memory = SliceMemory(memory.cache) if memory is not None and has_memory else None
        shared = self.reader.shared_slices(on_nodes=configuration.has_slices_on_nodes)
        self._slices = Slices(source, names, clock, memory=slice_memory, disk=disk, shared=shared, counter=counter)
        self.large = self.reader.large = LargeObjects(
            self._slices, settings.max_object_bytes, most_body_bytes=most_body_bytes, counter=counter
        )
        self.task_reads: SingleFlight[Response, Ticket] = SingleFlight(clock, self.reader.local_cache.ticket)
        self.threads = ThreadPoolExecutor(THREADS, thread_name_prefix="burstcache")

    @property
    def is_usable(self) -> bool:
        """True if this process has created the backend and not closed it."""
        return self._pid == os.getpid() and not self._is_closed

    def close(self) -> None:
        """Send the last reports, and close all connections. Do nothing in a forked child."""
        if self.is_usable:
            self._is_closed = True
            self.threads.shutdown(wait=False)  # no wait: `close` may run in one of them
            self._slices.close()
            self.reader.close()


def _slice_files(bounds: Bounds) -> SliceFiles:
    from burstcache.adapters.slice_files import SliceFiles  # lazy import: most clients have no disk

    return SliceFiles(bounds.disk, bounds.disk_bytes)
