"""Buffers: memory for the bytes of large reads."""

from __future__ import annotations

import io
import mmap
from collections import deque
from contextlib import suppress

LARGE_BYTES = 8 * 1024 * 1024  # from this size on, large pages pay
_MAPPED_BYTES = 128 * 1024  # as malloc maps by itself, until the first such memory was freed
_MOST_SPARES = 8
_MOST_TRIES = 4  # a recently sent buffer may still be in use
# A forked process has a copy. All pages are touched at once, which one call does sooner than a fault for each. Windows
# has no such flags.
_PRIVATE: dict[str, int] = (
    {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_POPULATE", 0)}
    if hasattr(mmap, "MAP_PRIVATE")
    else {}
)


class ResultBuffer:
    """Memory for the bytes of a result, which become `bytes` without a copy.

    Attributes:
        into: The zeroed memory, until `value` is called.
    """

    def __init__(self, size_bytes: int) -> None:
        self._file = io.BytesIO(bytes(size_bytes))
        self.into = self._file.getbuffer()
        in_large_pages(self.into)

    def value(self) -> bytes:
        """Return the bytes. They are copied only if a view of the memory is still in use."""
        self.into.release()
        return self._file.getvalue()


def in_large_pages(memory: memoryview) -> None:
    """Advise the system to back new memory with 2 MiB pages. Touching it page by page takes four times as long.

    Source:
        madvise(2), MADV_HUGEPAGE. The system may ignore the advice.
    """
    if len(memory) < LARGE_BYTES or not hasattr(mmap, "MADV_HUGEPAGE"):
        return
    import ctypes  # few reads are large enough to need it

    first = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    start = -(-first // mmap.PAGESIZE) * mmap.PAGESIZE
    length = ctypes.c_size_t(first + len(memory) - start)
    ctypes.CDLL(None).madvise(ctypes.c_void_p(start), length, mmap.MADV_HUGEPAGE)


def blank(size_bytes: int) -> memoryview:
    """Return zeroed memory, which the system clears lazily at the first touch."""
    return io.BytesIO(bytes(size_bytes)).getbuffer()


def mapped(size_bytes: int) -> memoryview:
    """Return zeroed memory. If it is long, the system maps it alone, and takes it back with its last view."""
    if size_bytes >= _MAPPED_BYTES:
        with suppress(OSError):  # the process has too many mappings
            return memoryview(mmap.mmap(-1, size_bytes, **_PRIVATE))
    return blank(size_bytes)


class RecycledBuffers:
    """Memory for bytes that are sent, each mapped by the system for it, in powers of two. Threads may share it.

    New mappings cost page faults, so memory that nobody uses any more is taken again.
    """

    def __init__(self, most_spares: int = _MOST_SPARES) -> None:
        self._spares: dict[int, deque[mmap.mmap]] = {}  # by length
        self._most_spares = most_spares

    def take(self, size_bytes: int) -> memoryview:
        """Return memory of this length, with any content."""
        whole_bytes = max(_MAPPED_BYTES, 1 << (size_bytes - 1).bit_length())
        return (self._unused(whole_bytes) or mapped(whole_bytes))[:size_bytes]

    def recycle(self, buffer: memoryview) -> None:
        """Offer memory that `take` has returned. It is not taken again while anybody has a view of it."""
        if isinstance(buffer.obj, mmap.mmap):
            spares = self._spares.get(len(buffer.obj))
            if spares is None:
                spares = self._spares.setdefault(len(buffer.obj), deque(maxlen=self._most_spares))
            spares.append(buffer.obj)

    def _unused(self, whole_bytes: int) -> memoryview | None:
        spares = self._spares.get(whole_bytes) or deque()
        for _ in range(min(len(spares), _MOST_TRIES)):
            with suppress(IndexError):
                spare = spares.popleft()
                if _is_unused(spare):
                    return memoryview(spare)
                spares.append(spare)
        return None


class RecycledCopies:
    """Copies of bytes, each in memory that the system maps for it. Threads may share it.

    malloc serves threads from several arenas, and does not give to others what is freed in one: a cache of slices took
    half as much again as its slices. New mappings cost page faults, so a copy takes the memory of a dropped one.
    """

    def __init__(self) -> None:
        self._spares: deque[mmap.mmap] = deque(maxlen=_MOST_SPARES)

    def copy(self, body: memoryview) -> memoryview:
        """Return a read-only copy."""
        copy = self._spare(len(body)) or mapped(len(body))
        copy[:] = body
        return copy.toreadonly()

    def recycle(self, copy: object) -> None:
        """Offer the memory of a copy that was dropped. It is not taken while anybody has a view of it."""
        if isinstance(copy, memoryview) and isinstance(copy.obj, mmap.mmap):
            self._spares.append(copy.obj)

    def _spare(self, size_bytes: int) -> memoryview | None:
        with suppress(IndexError):
            spare = self._spares.popleft()
            if len(spare) == size_bytes and _is_unused(spare):
                return memoryview(spare)
        return None


def _is_unused(memory: mmap.mmap) -> bool:
    """Return True if nobody has a view of memory."""
    try:
        memory.resize(len(memory))  # changes nothing, but raises BufferError if there is a view
    except (BufferError, SystemError):
        return False
    return True
