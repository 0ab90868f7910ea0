"""The memory tier: small objects in the reader's own process, for as long as they are known to be current."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from cachetools import LRUCache

from burstcache.adapters.clock import Instant
from burstcache.core.digest import Digest, prefix_of
from burstcache.web.entry import Entry

# An object above this share of the memory would push out too many others.
_LARGEST_SHARE = 8
# What Python takes on top, measured: of an entry its own objects and its places in ours, of a header two texts.
_ENTRY_BYTES = 512
_HEADER_BYTES = 120
_ABSENCES_BYTES = 4 << 20
_MOST_FORGOTTEN = 4096
_NOTHING = Entry({"content-length": "0"}, b"")


@dataclass(frozen=True, slots=True)
class Ticket:
    """What a reader knew before it began to load an object: what comes later may have overtaken the load.

    `sequence` is the number of the last change that was known, 0 without a digest; None: the digest was not known.
    """

    sequence: int | None
    at: Instant


@dataclass(frozen=True, slots=True)
class Kept:
    """An entry, and what was known before its load, or its last confirmation, began."""

    hash: str
    entry: Entry
    ticket: Ticket


class Memory:
    """Entries of bounded size, the least recently used one forgotten first. Threads may share it.

    An entry has its place by what the digest has of its key's hash: a second key with the same 48 bits takes the first
    one's place, and a change of either is a change of both.
    """

    def __init__(self, max_bytes: int, *, max_object_bytes: int) -> None:
        """Hold nothing.

        Args:
            max_bytes: What all entries take at most [bytes], above 0.
            max_object_bytes: The largest object to keep [bytes]; one above an eighth of `max_bytes` is not kept either.
        """
        self._max_object_bytes = min(max_object_bytes, max_bytes // _LARGEST_SHARE)
        self._kept: LRUCache[str, Kept] = LRUCache(max_bytes, getsizeof=_size_bytes)
        self._digest = Digest()
        self._forgotten_at_s: dict[str, float] = {}  # by prefix: no load that began before is kept
        self._all_forgotten_at_s = float("-inf")
        self._lock = threading.Lock()

    def takes(self, size_bytes: int) -> bool:
        """Whether an object of that size may be kept."""
        return size_bytes <= self._max_object_bytes

    def get(self, hash_: str) -> Kept | None:
        """Return the entry of the key with this hash, or None."""
        with self._lock:
            kept = self._kept.get(prefix_of(hash_))
        return kept if kept is not None and kept.hash == hash_ else None

    def put(self, hash_: str, entry: Entry, ticket: Ticket) -> bool:
        """Keep an entry; False if it is too large, or if its object may have changed since its load began."""
        if not self.takes(entry.size_bytes) or ticket.sequence is None:
            return False
        prefix, kept = prefix_of(hash_), Kept(hash_, entry, ticket)
        if _size_bytes(kept) > self._kept.maxsize:
            return False
        with self._lock:
            if self._has_changed(prefix, ticket.sequence) or self._is_forgotten(prefix, ticket):
                return False
            self._kept[prefix] = kept
        return True

    def may_have_changed(self, hash_: str, ticket: Ticket) -> bool:
        """Whether the key's object may be another one than when this ticket was taken, as far as is known now.

        It may be after an announced change, and after a write of this process.
        """
        prefix = prefix_of(hash_)
        with self._lock:
            is_known = ticket.sequence is not None and not self._has_changed(prefix, ticket.sequence)
            return not is_known or self._is_forgotten(prefix, ticket)

    def drop(self, hash_: str) -> None:
        """Forget the entry of a key."""
        with self._lock:
            self._kept.pop(prefix_of(hash_), None)

    def forget(self, hash_: str, at: Instant) -> None:
        """Forget the entry of a key that was written by this process, and keep no load of it that began before."""
        prefix = prefix_of(hash_)
        with self._lock:
            self._kept.pop(prefix, None)
            if len(self._forgotten_at_s) >= _MOST_FORGOTTEN:
                self._all_forgotten_at_s = at.monotonic_s
                self._forgotten_at_s.clear()
            self._forgotten_at_s[prefix] = at.monotonic_s

    def follow(self, digest: Digest) -> None:
        """Forget what a newer digest says has changed since the last one."""
        with self._lock:
            changed = digest.changed_since(self._digest.sequence)
            self._digest = digest
            if changed is None:
                self._kept.clear()
                return
            for prefix in changed:
                self._kept.pop(prefix, None)

    def _is_forgotten(self, prefix: str, ticket: Ticket) -> bool:
        forgotten_at_s = max(self._forgotten_at_s.get(prefix, self._all_forgotten_at_s), self._all_forgotten_at_s)
        return ticket.at.monotonic_s <= forgotten_at_s

    def _has_changed(self, prefix: str, sequence: int) -> bool:
        changed = self._digest.changed_since(sequence)
        return changed is None or prefix in changed


class Heads(Memory):
    """What S3 said of objects above a size: entries without their bodies, which are read in parts."""

    def __init__(self, max_bytes: int, *, above_bytes: int) -> None:
        """Hold nothing.

        Args:
            max_bytes: What all entries take at most [bytes], above 0.
            above_bytes: The largest object of which none is kept [bytes].
        """
        super().__init__(max_bytes, max_object_bytes=above_bytes)
        self._above_bytes = above_bytes

    def takes(self, size_bytes: int) -> bool:
        """Whether an object of that size is read in parts."""
        return size_bytes > self._above_bytes


class Absences(Memory):
    """Keys of which S3 said that it has no object: entries of nothing, some thousand."""

    def __init__(self) -> None:
        """Know of none."""
        super().__init__(_ABSENCES_BYTES, max_object_bytes=0)

    def note(self, hash_: str, ticket: Ticket) -> None:
        """Remember what S3 said of a key."""
        self.put(hash_, _NOTHING, ticket)

    def ticket(self, hash_: str) -> Ticket | None:
        """Return what was known before S3 said that it has no object; None if it did not."""
        kept = self.get(hash_)
        return None if kept is None else kept.ticket


def _size_bytes(kept: Kept) -> int:
    headers_bytes = sum(_HEADER_BYTES + len(name) + len(value) for name, value in kept.entry.meta.items())
    return len(kept.entry.body) + headers_bytes + _ENTRY_BYTES
