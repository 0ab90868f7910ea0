"""Layers of a result cache: memory and shared stores, read in order. A hit is copied to the layers above."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

from burstcache.adapters.circuit_breaker import BackgroundProbe, CircuitBreakers
from burstcache.adapters.clock import Clock, Instant, instant, seconds_since
from burstcache.core.errors import ResultStoreRefusalError
from burstcache.logs import logger
from burstcache.results.compression import Compression
from burstcache.results.entries import LONGEST_LINE, ResultEntry, pack, unpack
from burstcache.results.memory import ResultMemory
from burstcache.results.stores.store import LeasingStore, Store
from burstcache.results.threads import in_thread

PROBE_EVERY_S = 1.0

T = TypeVar("T")


class Packing(NamedTuple):
    """The maximum size of a result [bytes], and the compression of results above a threshold [bytes]."""

    max_bytes: int
    compression: Compression | None = None
    compress_above_bytes: int = 0

    @property
    def most_bytes(self) -> int:
        """Maximum size of an entry's stored form [bytes]."""
        return self.max_bytes + LONGEST_LINE


class SharedLayer:
    """A store behind a circuit breaker. Failures count as misses and are never raised."""

    def __init__(
        self, store: Store, clock: Clock, *, start: Callable[[Callable[[], None]], object] = in_thread
    ) -> None:
        """Start with a closed circuit breaker.

        Args:
            store: The store of the entries.
            clock: Timestamps entries, and times the probes of a failed store.
            start: Runs a probe in the background.
        """
        self.name = store.name
        self.store = store
        self._clock = clock
        self._began = instant(clock)
        self.failures = 0  # operations that failed or that the store refused
        probe = BackgroundProbe(lambda _: store.ping(), start)
        self._breaker = CircuitBreakers(clock, first_s=PROBE_EVERY_S, open_s=PROBE_EVERY_S, probe=probe)

    def get(self, key: str, packing: Packing) -> ResultEntry | None:
        """Return the unexpired entry at a key, or None."""
        data = self.call(self.store.get, key, most_bytes=packing.most_bytes)
        return None if data is None else self.read(key, data, packing)

    def read(self, key: str, data: bytes, packing: Packing) -> ResultEntry | None:
        """Decode an entry. Return None if it is invalid or has expired."""
        try:
            entry = unpack(data, now=self._now(), most_bytes=packing.max_bytes)
        except Exception as error:  # the stored bytes are untrusted
            logger().warning("results: an entry cannot be decoded, so it counts as a miss", key=key, reason=str(error))
            return None
        return entry if entry.age_ms(self._clock) < entry.kept_ms else None

    def put(self, key: str, entry: ResultEntry, packing: Packing) -> bool:
        """Store an entry. Return False if the store failed or refused."""
        is_large = len(entry.payload) > packing.compress_above_bytes
        age_ms, now = entry.age_ms(self._clock), self._now()
        stored = entry._replace(made=now._replace(at_us=now.at_us - age_ms * 1000))
        data = pack(stored, packing.compression if is_large else None)
        return self.call(self._put, key, data, max(1, entry.kept_ms - age_ms)) or False

    def forget(self, key: str) -> bool:
        """Remove an entry. Return False if the store failed or refused."""
        return self.call(self._forget, key) or False

    def call(self, operation: Callable[..., T], *args: Any, **kwargs: Any) -> T | None:
        """Return the result of a store's operation, or None if the store is down or refuses."""
        if self._breaker.is_open(self.name):
            return None
        try:
            return operation(*args, **kwargs)
        except ResultStoreRefusalError as error:
            logger().warning("results: a store refuses", reason=f"{self.name}: {error}")
        except Exception as error:  # after any error, the cached function can be called instead
            logger().warning("results: a store is skipped until it answers", reason=f"{self.name}: {error}")
            self._breaker.record_failure(self.name)
        self.failures += 1
        return None

    def close(self) -> None:
        """Close the store's connections."""
        self.store.close()

    def _now(self) -> Instant:
        """Return the current time. Its wall time does not go back when this machine's clock is set back."""
        now = instant(self._clock)
        return now._replace(at_us=self._began.at_us + round(seconds_since(self._clock, self._began) * 1e6))

    def _put(self, key: str, data: bytes, kept_ms: int) -> bool:
        self.store.put(key, data, kept_ms=kept_ms)
        return True

    def _forget(self, key: str) -> bool:
        self.store.forget(key)
        return True


class Layers:
    """Memory, if configured, and shared stores in lookup order."""

    def __init__(self, memory: ResultMemory | None, shared: Sequence[SharedLayer]) -> None:
        self.memory = memory
        self.shared = tuple(shared)
        # The first store that grants leases, which decide which environment computes.
        self.leasing = next((layer for layer in shared if isinstance(layer.store, LeasingStore)), None)

    def get_shared(self, key: str, packing: Packing) -> tuple[ResultEntry, SharedLayer] | None:
        """Return an entry and the first layer that has it, or None."""
        for layer in self.shared:
            if (entry := layer.get(key, packing)) is not None:
                return entry, layer
        return None

    def lift(self, key: str, entry: ResultEntry, found_in: SharedLayer, age_ms: int, packing: Packing) -> None:
        """Copy an entry of this age [ms] to the layers above the one in which it was found."""
        if self.memory is not None:
            self.memory.put(key, entry, age_ms)
        for layer in self.shared:
            if layer is found_in:
                return
            layer.put(key, entry, packing)

    def put(self, key: str, entry: ResultEntry, age_ms: int, packing: Packing) -> bool:
        """Store an entry of this age [ms] in all layers. Return True if environments waiting for a lease see it."""
        if self.memory is not None:
            self.memory.put(key, entry, age_ms)
        is_stored = {layer: layer.put(key, entry, packing) for layer in self.shared}
        return self.leasing is not None and is_stored[self.leasing]

    def forget(self, key: str, on_removed: Callable[[], object] = lambda: None) -> bool:
        """Remove an entry from all layers, but not from other processes' memory. Return True if all have removed it.

        Layers are cleared from last to first, since a concurrent reader may copy the entry to higher layers. These are
        cleared later.

        Args:
            key: The entry's key.
            on_removed: Called after each store, before the layers above it are cleared.
        """
        is_removed = []
        for layer in reversed(self.shared):  # every store is called, even if one fails
            is_removed.append(layer.forget(key))
            on_removed()
        if self.memory is not None:
            self.memory.forget(key)
        return all(is_removed)

    def close(self) -> None:
        """Clear memory and close the connections."""
        if self.memory is not None:
            self.memory.close()
        for layer in self.shared:
            layer.close()
