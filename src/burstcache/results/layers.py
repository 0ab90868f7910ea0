"""Places in the order in which they are asked: a result found in one is put into those above it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

from burstcache.adapters.clock import Clock, Instant, instant, seconds_since
from burstcache.core.errors import ResultStoreRefusalError
from burstcache.logs import logger
from burstcache.results.compression import Compression
from burstcache.results.entries import LONGEST_LINE, Entry, pack, unpack
from burstcache.results.guard import Guard
from burstcache.results.memory import Memory
from burstcache.results.stores.store import LeasingStore, Store

T = TypeVar("T")


class Packing(NamedTuple):
    """How large results may be [bytes], and how they are compressed from which size on [bytes]."""

    max_bytes: int
    compression: Compression | None = None
    compress_above_bytes: int = 0

    @property
    def most_bytes(self) -> int:
        """What an entry takes at most where it is stored [bytes]."""
        return self.max_bytes + LONGEST_LINE


class SharedLayer:
    """A store behind its guard: a failure is a miss, and never raised."""

    def __init__(self, store: Store, guard: Guard, clock: Clock) -> None:
        self.name = store.name
        self.store = store
        self._clock = clock
        self._began = instant(clock)
        self.failures = 0  # operations that the store did not do
        self._guard = guard

    def get(self, key: str, packing: Packing) -> Entry | None:
        """Return an entry that is still kept."""
        data = self.ask(self.store.get, key, most_bytes=packing.most_bytes)
        return None if data is None else self.read(key, data, packing)

    def read(self, key: str, data: bytes, packing: Packing) -> Entry | None:
        """Return the entry that some bytes are, if it is still kept."""
        try:
            entry = unpack(data, now=self._now(), most_bytes=packing.max_bytes)
        except Exception as error:  # whatever somebody has put there
            logger().warning("results: an entry cannot be read, so it is computed anew", key=key, reason=str(error))
            return None
        return entry if entry.age_ms(self._clock) < entry.kept_ms else None

    def put(self, key: str, entry: Entry, packing: Packing) -> bool:
        """Keep an entry, and return whether the store does."""
        is_large = len(entry.payload) > packing.compress_above_bytes
        age_ms, now = entry.age_ms(self._clock), self._now()
        stored = entry._replace(made=now._replace(at_us=now.at_us - age_ms * 1000))
        data = pack(stored, packing.compression if is_large else None)
        return self.ask(self._put, key, data, max(1, entry.kept_ms - age_ms)) or False

    def forget(self, key: str) -> bool:
        """Remove an entry, and return whether the store has."""
        return self.ask(self._forget, key) or False

    def ask(self, operation: Callable[..., T], *arguments: Any, **named: Any) -> T | None:
        """Return an operation's answer, or None if the store is down or refuses."""
        if not self._guard.allows():
            return None
        try:
            return operation(*arguments, **named)
        except ResultStoreRefusalError as error:
            logger().warning("results: a place refuses", reason=f"{self.name}: {error}")
        except Exception as error:  # whatever it is, the function can be called
            self._guard.failed(error)
        self.failures += 1
        return None

    def close(self) -> None:
        """Close the store's connections."""
        self.store.close()

    def _now(self) -> Instant:
        """Return the present; its wall time does not run back when this machine's is set back."""
        now = instant(self._clock)
        return now._replace(at_us=self._began.at_us + round(seconds_since(self._clock, self._began) * 1e6))

    def _put(self, key: str, data: bytes, kept_ms: int) -> bool:
        self.store.put(key, data, kept_ms=kept_ms)
        return True

    def _forget(self, key: str) -> bool:
        self.store.forget(key)
        return True


class Layers:
    """Memory first, if there is one, and then stores in the order in which they are asked."""

    def __init__(self, memory: Memory | None, shared: Sequence[SharedLayer]) -> None:
        self.memory = memory
        self.shared = tuple(shared)
        # Where environments agree on who computes.
        self.leasing = next((layer for layer in shared if isinstance(layer.store, LeasingStore)), None)

    def get_shared(self, key: str, packing: Packing) -> tuple[Entry, SharedLayer] | None:
        """Return an entry and the first layer that has it."""
        for layer in self.shared:
            if (entry := layer.get(key, packing)) is not None:
                return entry, layer
        return None

    def lift(self, key: str, entry: Entry, found_in: SharedLayer, age_ms: int, packing: Packing) -> None:
        """Put an entry of that age [ms] into the layers above the one that had it."""
        if self.memory is not None:
            self.memory.put(key, entry, age_ms)
        for layer in self.shared:
            if layer is found_in:
                return
            layer.put(key, entry, packing)

    def put(self, key: str, entry: Entry, age_ms: int, packing: Packing) -> bool:
        """Keep an entry of that age [ms] in all layers; return whether callers that wait for a lease find it."""
        if self.memory is not None:
            self.memory.put(key, entry, age_ms)
        is_kept = {layer: layer.put(key, entry, packing) for layer in self.shared}
        return self.leasing is not None and is_kept[self.leasing]

    def forget(self, key: str) -> bool:
        """Remove an entry from all layers, and return whether all have; other processes' memories keep theirs."""
        if self.memory is not None:
            self.memory.forget(key)
        is_removed = [layer.forget(key) for layer in self.shared]  # each is asked, whatever the others say
        return all(is_removed)

    def close(self) -> None:
        """Forget what is in memory, and close the connections."""
        if self.memory is not None:
            self.memory.close()
        for layer in self.shared:
            layer.close()
