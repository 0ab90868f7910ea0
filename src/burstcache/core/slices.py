"""Slices of large objects: aligned, immutable parts of one version, the unit of caches in memory, on disk and in Redis.

A slice's name contains the version, so a slice is never stale. A change of the object makes its slices unreachable.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from typing import NamedTuple

SLICE_BYTES = 256 * 1024
MISSED_AGAIN_S = 600  # a node takes a slice at its second miss within this time, so that a scan evicts nothing
_NAME_BYTES = 16
_MOST_HEADS = 4096  # recent names of heads
_MOST_BEGUN = 1024  # versions whose hashes are begun, at most 2 KiB each


@dataclass(frozen=True, slots=True)
class Version:
    """One version of an object.

    Attributes:
        key: The object's key.
        key_hash: The key's hash.
        etag: S3's ETag, with its quotes.
        size_bytes: Length of the object [bytes].
    """

    key: str
    key_hash: str
    etag: str
    size_bytes: int


class Slice(NamedTuple):
    """One slice of a version: the bytes from `start` up to `end`, exclusive."""

    name: str
    start: int
    end: int

    @property
    def size_bytes(self) -> int:
        """Length of the slice [bytes]."""
        return self.end - self.start


class SliceNames:
    """Names of the slices of a bucket's objects: 32 hexadecimal digits, unique across buckets and endpoints."""

    def __init__(self, endpoint_url: str, bucket: str) -> None:
        self._bucket = f"{endpoint_url}\n{bucket}\n"
        self._heads = lru_cache(_MOST_HEADS)(self._name_head)
        self._begun = lru_cache(_MOST_BEGUN)(self._begin)
        self._latest: tuple[Version | None, blake2b] = None, blake2b()

    def slices(self, version: Version, start: int, end: int) -> list[Slice]:
        """Return the slices that a byte range of a version touches, in order.

        Args:
            version: The version of the object.
            start: Start of the range [bytes].
            end: End of the range, exclusive, at most the object's size [bytes].
        """
        of, named = self._latest
        if of is not version:
            named = self._begun(version)
            self._latest = version, named
        slices = []
        for index in range(start // SLICE_BYTES, -(-end // SLICE_BYTES)):
            name = named.copy()
            name.update(b"%d" % index)
            first = index * SLICE_BYTES
            slices.append(Slice(name.hexdigest(), first, min(first + SLICE_BYTES, version.size_bytes)))
        return slices

    def _begin(self, version: Version) -> blake2b:
        """Return the hash of a version, which the index of a slice completes."""
        # The key comes last: it alone may contain line breaks.
        text = f"{self._bucket}{SLICE_BYTES}\n{version.etag}\n{version.size_bytes}\n{version.key}\n"
        return blake2b(text.encode(), digest_size=_NAME_BYTES)

    def head(self, key: str) -> str:
        """Return the name under which the head of a large object is stored."""
        return self._heads(key)

    def _name_head(self, key: str) -> str:
        return blake2b(f"{self._bucket}head\n{key}".encode(), digest_size=_NAME_BYTES).hexdigest()


def aligned(start: int, end: int) -> tuple[int, int]:
    """Return start and end of the slices that a range touches [bytes]. An object may end before."""
    return start - start % SLICE_BYTES, end + -end % SLICE_BYTES


def runs(slices: Iterable[Slice]) -> Iterator[list[Slice]]:
    """Group adjacent slices, and yield each group, for one ranged GET."""
    run: list[Slice] = []
    for each in slices:
        if run and run[-1].end != each.start:
            yield run
            run = []
        run.append(each)
    if run:
        yield run
