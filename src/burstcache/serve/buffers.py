"""Buffers: memory for the bytes of large reads."""

from __future__ import annotations

import io
import mmap
from contextlib import suppress

LARGE_BYTES = 8 * 1024 * 1024  # from this size on, large pages pay
_MAPPED_BYTES = 128 * 1024  # as malloc maps by itself, until the first such memory was freed
# A forked process has a copy. Windows has neither forks nor these flags.
_PRIVATE: dict[str, int] = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_PRIVATE") else {}


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
    """Return zeroed memory, which the system clears lazily at the first touch.

    Long memory is mapped by itself, so it returns to the system with its last view. malloc serves threads from several
    arenas, and does not give to others what is freed in one: a cache of slices took half as much again.
    """
    if size_bytes >= _MAPPED_BYTES:
        with suppress(OSError):  # the process has too many mappings
            return memoryview(mmap.mmap(-1, size_bytes, **_PRIVATE))
    return io.BytesIO(bytes(size_bytes)).getbuffer()


def copied(body: memoryview) -> memoryview:
    """Return a read-only copy in memory of its own."""
    copy = blank(len(body))
    copy[:] = body
    return copy.toreadonly()
