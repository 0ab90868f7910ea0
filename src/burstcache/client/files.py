"""Files of the file system, open for reading: loaded entirely, or read lazily."""

from __future__ import annotations

import atexit
import errno
import io
import math
import os
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NoReturn

from botocore.exceptions import BotoCoreError
from fsspec.spec import AbstractBufferedFile, AbstractFileSystem

from burstcache.client.streams import ObjectFile
from burstcache.core.errors import BurstcacheError

if TYPE_CHECKING:
    from botocore.response import StreamingBody

    from burstcache.client.paths import Info

_QUIET_S, _MOST_WAIT_S = 0.1, 5.0

_stale_read_s = -math.inf  # the last read of a stale file in this process


class WholeFile(io.BytesIO):
    """An object that is entirely in memory."""

    mode = "rb"

    def __init__(self, fs: AbstractFileSystem, details: Info, body: bytes) -> None:
        super().__init__(body)
        self.fs, self.path, self.details, self.size = fs, details["name"], details, details["size"]

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the path and the position. Unpickling reopens the object."""
        return _reopen, (self.fs, self.path, self.tell())

    def info(self) -> Info:
        """Return the object's details at the time of opening."""
        return self.details

    def writable(self) -> bool:
        """Return False, unlike `BytesIO`."""
        return False

    def _refuse(self, *_: Any) -> NoReturn:
        raise io.UnsupportedOperation(f"{self.path} is open for reading")

    write = writelines = truncate = _refuse


class LargeFile(AbstractBufferedFile):
    """An object that is read lazily: from a cached object's file, or from the stream of the opening GET.

    Without a cached object's file, range requests follow a seek.
    """

    def __init__(
        self,
        fs: AbstractFileSystem,
        details: Info,
        body: StreamingBody | ObjectFile,
        read_range: Callable[[str], bytes],
        block_size: int,
        **options: Any,
    ) -> None:
        """Open at the start of the object.

        Args:
            fs: The file system, which reopens the file when it is unpickled.
            details: The object's details.
            body: The cached object's file, or the stream of the opening GET.
            read_range: Returns a range of the same version, given in HTTP's syntax: `bytes=0-499`.
            block_size: Size of a range request after a seek [bytes].
            options: fsspec's own options.
        """
        self._stream: StreamingBody | ObjectFile | None = body
        self._read_range = read_range
        self._streamed_bytes = 0
        self._stale = ""  # the reason, once the object has been overwritten
        self._is_read = threading.Lock()  # DuckDB reads one file in several threads
        self._pid = os.getpid()
        super().__init__(fs, details["name"], "rb", block_size, **options | {"size": details["size"]})
        self.details = details

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the path, the position and the cache options, as fsspec itself does since 2024.12."""
        cache_type = "none" if self.cache is None else self.cache.name  # an empty cache is falsy
        return _reopen, (self.fs, self.path, self.tell(), {"block_size": self.blocksize, "cache_type": cache_type})

    def close(self) -> None:
        """Close the file and its stream."""
        self._close_stream()
        super().close()

    def _fetch_range(self, start: int, end: int) -> bytes:
        if self._pid != os.getpid():  # the stream belongs to the parent process
            self._stream = None
        if self._stream is not None and self._is_read.acquire(blocking=False):
            try:
                if (data := self._read_stream(start, end)) is not None:
                    return data
            finally:
                self._is_read.release()
        if self._stale:
            _note_stale_read()
            raise OSError(errno.ESTALE, self._stale, self.path)
        try:
            return self._read_range(f"bytes={start}-{end - 1}")
        except OSError as error:
            if error.errno == errno.ESTALE:
                self._stale = str(error.strerror)
                _note_stale_read()
            raise

    def _read_stream(self, start: int, end: int) -> bytes | None:
        """Return a range from the stream, or close the stream and return None."""
        with suppress(BotoCoreError, BurstcacheError, OSError):  # a range request raises S3's own error
            if isinstance(self._stream, ObjectFile):
                self._stream.seek(start)
                return self._stream.read(end - start)
            if self._stream is not None and start == self._streamed_bytes:
                data = self._stream.read(end - start)
                self._streamed_bytes += len(data)
                if len(data) == end - start:  # botocore reports a stream that breaks off at the next read only
                    return data
        self._close_stream()
        return None

    def _close_stream(self) -> None:
        if self._stream is not None:
            self._stream.close()
            self._stream = None


def _note_stale_read() -> None:
    global _stale_read_s
    _stale_read_s = time.monotonic()


@atexit.register
def _await_stale_reads() -> None:
    """At exit, wait until nobody has read a stale file for 0.1 s.

    pyarrow's threads make their pending reads even after `to_table` has raised, and do not report when they are done.
    Up to Python 3.13, a thread that calls Python while the interpreter is finalized aborts the process or hangs.
    """
    until_s = time.monotonic() + _MOST_WAIT_S
    while (left_s := min(_stale_read_s + _QUIET_S, until_s) - time.monotonic()) > 0:
        time.sleep(left_s)


def _reopen(fs: AbstractFileSystem, path: str, position: int, options: Mapping[str, Any] | None = None) -> io.IOBase:
    file: io.IOBase = fs.open(path, **options or {})
    file.seek(position)
    return file
