"""Memory tier: caches small objects in the reader's process while they are known to be current."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any

from burstcache.adapters.clock import Instant
from burstcache.core.digest import Digest, prefix_of
from burstcache.core.parameters import US_PER_S
from burstcache.serve.scan_resistant import ScanResistantCache
from burstcache.web.entry import Entry

# The largest cacheable object is 1/8 of the memory: larger ones would evict too many others.
_LARGEST_SHARE = 8
# Measured overhead of Python: objects and dictionary slots per entry, two strings per header.
_ENTRY_BYTES = 512
_HEADER_BYTES = 120
_ABSENCES_BYTES = 4 << 20
_MOST_FORGOTTEN = 4096
_NOTHING = Entry({"content-length": "0"}, b"")


@dataclass(frozen=True, slots=True)
class Ticket:
    """A snapshot taken before the reader loads an object, to detect changes during the load.

    `sequence` is the number of the last known change: 0 without a digest, None before the first read of the digest.
    """

    sequence: int | None
    at: Instant

    def aged(self, by_s: float) -> Ticket:
        """Return the ticket of a copy that may be older than its load by this time [s]."""
        if not by_s:
            return self
        return Ticket(self.sequence, Instant(self.at.monotonic_s - by_s, self.at.at_us - round(by_s * US_PER_S)))


@dataclass(frozen=True, slots=True)
class CachedEntry:
    """An entry, and the ticket from before its load or its last revalidation.

    Attributes:
        heads: Heads of responses that a server has assembled from the entry, by a variant of its own.
    """

    hash: str
    entry: Entry
    ticket: Ticket
    heads: dict[bool, bytes] = field(default_factory=dict, compare=False, repr=False)


class MemoryTier:
    """A thread-safe, scan-resistant cache of entries, bounded in bytes.

    Entries are stored under the 48-bit hash prefix that the digest lists. Keys with equal prefixes evict each other,
    and a change of either invalidates both.

    Attributes:
        cache: The entries. Slices may share it.
    """

    def __init__(self, max_bytes: int, *, max_object_bytes: int) -> None:
        """Create an empty cache.

        Args:
            max_bytes: Maximum total size of all entries [bytes], above 0.
            max_object_bytes: Maximum size of an object [bytes], capped at an eighth of `max_bytes`.
        """
        self._max_object_bytes = min(max_object_bytes, max_bytes // _LARGEST_SHARE)
        self.cache: ScanResistantCache[str, Any] = ScanResistantCache(max_bytes)
        self._digest = Digest()
        self._forgotten_at_s: dict[str, float] = {}  # by prefix: loads that started earlier are rejected
        self._all_forgotten_at_s = float("-inf")
        self._lock = threading.Lock()

    def accepts(self, size_bytes: int) -> bool:
        """Return True if an object of this size is cacheable."""
        return size_bytes <= self._max_object_bytes

    def get(self, hash_: str) -> CachedEntry | None:
        """Return the entry of the key with this hash, or None."""
        cached: CachedEntry | None = self.cache.get(prefix_of(hash_))
        return cached if cached is not None and cached.hash == hash_ else None

    def put(self, hash_: str, entry: Entry, ticket: Ticket) -> bool:
        """Store an entry. Return False if it is too large, or if the object may have changed since its load began."""
        if not self.accepts(entry.size_bytes) or ticket.sequence is None:
            return False
        prefix, cached = prefix_of(hash_), CachedEntry(hash_, entry, ticket)
        with self._lock:
            if self._has_changed(prefix, ticket.sequence) or self._is_forgotten(prefix, ticket):
                return False
            return self.cache.put(prefix, cached, _size_bytes(cached))

    def may_have_changed(self, hash_: str, ticket: Ticket) -> bool:
        """Return True if the object may have changed since the ticket, by an announced or a local write."""
        prefix = prefix_of(hash_)
        with self._lock:
            is_known = ticket.sequence is not None and not self._has_changed(prefix, ticket.sequence)
            return not is_known or self._is_forgotten(prefix, ticket)

    def drop(self, hash_: str) -> None:
        """Remove the entry of a key."""
        with self._lock:
            self.cache.pop(prefix_of(hash_))

    def forget(self, hash_: str, at: Instant) -> None:
        """Remove the entry of a key that this process has written, and reject loads that started earlier."""
        prefix = prefix_of(hash_)
        with self._lock:
            self.cache.pop(prefix)
            if len(self._forgotten_at_s) >= _MOST_FORGOTTEN:
                self._all_forgotten_at_s = at.monotonic_s
                self._forgotten_at_s.clear()
            self._forgotten_at_s[prefix] = at.monotonic_s

    def drop_changed(self, digest: Digest) -> None:
        """Remove the entries that a newer digest reports as changed."""
        with self._lock:
            changed = digest.changed_since(self._digest.sequence)
            self._digest = digest
            if changed is None:
                self.cache.remove(_is_entry)
                return
            for prefix in changed:
                self.cache.pop(prefix)

    def _is_forgotten(self, prefix: str, ticket: Ticket) -> bool:
        forgotten_at_s = max(self._forgotten_at_s.get(prefix, self._all_forgotten_at_s), self._all_forgotten_at_s)
        return ticket.at.monotonic_s <= forgotten_at_s

    def _has_changed(self, prefix: str, sequence: int) -> bool:
        changed = self._digest.changed_since(sequence)
        return changed is None or prefix in changed


class HeadCache(MemoryTier):
    """A cache of HEAD responses (entries without bodies) for large objects, which are read in parts."""

    def __init__(self, max_bytes: int, *, above_bytes: int) -> None:
        """Create an empty cache.

        Args:
            max_bytes: Maximum total size of all entries [bytes], above 0.
            above_bytes: Only objects above this size are cached [bytes].
        """
        super().__init__(max_bytes, max_object_bytes=above_bytes)
        self._above_bytes = above_bytes

    def accepts(self, size_bytes: int) -> bool:
        """Return True if an object of this size is read in parts."""
        return size_bytes > self._above_bytes


class NegativeCache(MemoryTier):
    """A cache of several thousand keys that have no object in S3."""

    def __init__(self) -> None:
        """Create an empty cache."""
        super().__init__(_ABSENCES_BYTES, max_object_bytes=0)

    def record(self, hash_: str, ticket: Ticket) -> None:
        """Record that S3 has no object with this key."""
        self.put(hash_, _NOTHING, ticket)

    def ticket(self, hash_: str) -> Ticket | None:
        """Return the ticket from before S3 reported the object as absent, or None if the key is not cached."""
        cached = self.get(hash_)
        return None if cached is None else cached.ticket


def _is_entry(cached: object) -> bool:
    return isinstance(cached, CachedEntry)


def _size_bytes(cached: CachedEntry) -> int:
    headers_bytes = sum(_HEADER_BYTES + len(name) + len(value) for name, value in cached.entry.meta.items())
    return len(cached.entry.body) + headers_bytes + _ENTRY_BYTES
