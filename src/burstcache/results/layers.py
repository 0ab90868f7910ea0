"""Places in the order in which they are asked: a result found in one is put into those above it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

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

    def __init__(self, store: Store, guard: Guard) -> None:
        self.name = store.name
        self.store = store
        self.failures = 0  # operations that the store did not do
        self._guard = guard

    def get(self, key: str, now_ms: int, packing: Packing) -> Entry | None:
        """Return an entry that is still kept."""
        data = self.ask(self.store.get, key, most_bytes=packing.most_bytes)
        return None if data is None else self.read(key, data, now_ms, packing)

    def read(self, key: str, data: bytes, now_ms: int, packing: Packing) -> Entry | None:
        """Return the entry that some bytes are, if it is still kept."""
        try:
            entry = unpack(data, most_bytes=packing.max_bytes)
        except Exception as error:  # whatever somebody has put there
            logger().warning("results: an entry cannot be read, so it is computed anew", key=key, reason=str(error))
            return None
        return entry if now_ms < entry.kept_until_ms else None

    def put(self, key: str, entry: Entry, now_ms: int, packing: Packing) -> bool:
        """Keep an entry, and return whether the store does."""
        is_large = len(entry.payload) > packing.compress_above_bytes
        data = pack(entry, packing.compression if is_large else None)
        return self.ask(self._put, key, data, max(1, entry.kept_until_ms - now_ms)) or False

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

    def get_shared(self, key: str, now_ms: int, packing: Packing) -> tuple[Entry, SharedLayer] | None:
        """Return an entry and the first layer that has it."""
        for layer in self.shared:
            if (entry := layer.get(key, now_ms, packing)) is not None:
                return entry, layer
        return None

    def lift(self, key: str, entry: Entry, found_in: SharedLayer, now_ms: int, packing: Packing) -> None:
        """Put an entry into the layers above the one that had it."""
        if self.memory is not None:
            self.memory.put(key, entry, now_ms)
        for layer in self.shared:
            if layer is found_in:
                return
            layer.put(key, entry, now_ms, packing)

    def put(self, key: str, entry: Entry, now_ms: int, packing: Packing) -> bool:
        """Keep an entry in all layers; return whether those find it who wait for a lease."""
        if self.memory is not None:
            self.memory.put(key, entry, now_ms)
        is_kept = {layer: layer.put(key, entry, now_ms, packing) for layer in self.shared}
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
