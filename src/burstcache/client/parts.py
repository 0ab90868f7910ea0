"""What a client reads and writes with."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

from burstcache.adapters.clock import SystemClock
from burstcache.adapters.object_store import ObjectStore
from burstcache.adapters.single_flight import SingleFlight
from burstcache.client.configuration import Configuration
from burstcache.client.keeping import Bounds
from burstcache.client.large import LargeObjects
from burstcache.client.pool import PoolThread
from burstcache.client.slices import Slices
from burstcache.serve.assembly import make_batches, make_reader, make_writer
from burstcache.serve.memory_tier import Ticket
from burstcache.web.response import Response

THREADS = 64  # reads that one client has under way at a time for `get_many` and for an AsyncClient


class Parts:
    """What a process must not share with the one that it forked from."""

    def __init__(self, configuration: Configuration, bounds: Bounds) -> None:
        """Make them for this process."""
        self._pid = os.getpid()
        self._is_closed = False
        settings, clients, clock = configuration.settings, configuration.make_clients(), SystemClock()
        self.reader = make_reader(
            settings,
            clients,
            clock,
            publisher=make_batches(settings, clients, clock) if settings.bus_name else None,
            larger="send" if configuration.pool is None else "leave",
            memory_bytes=bounds.memory_bytes,
            max_stale_s=bounds.max_stale_s,
        )
        self.writer = make_writer(settings, clients, self.reader)
        pool = None if configuration.pool is None else PoolThread(configuration.pool, clock)
        self._slices = Slices(ObjectStore(settings.bucket_name, clients.s3), pool, self.reader.forget, clock)
        self.large = LargeObjects(self.reader, self._slices, settings.max_object_bytes)
        self.read = self.reader.read if pool is None else self.large.read
        self.task_reads: SingleFlight[Response, Ticket] = SingleFlight(clock, self.reader.own.ticket)
        self.threads = ThreadPoolExecutor(THREADS, thread_name_prefix="burstcache")

    @property
    def is_usable(self) -> bool:
        """Whether this process has made them and not closed them."""
        return self._pid == os.getpid() and not self._is_closed

    def close(self) -> None:
        """Send the last reports and leave; nothing in a process that forked from the maker's."""
        if self.is_usable:
            self._is_closed = True
            self.threads.shutdown(wait=False)  # one of them may be here: it had the last reference to the client
            self._slices.close()
            self.reader.close()
