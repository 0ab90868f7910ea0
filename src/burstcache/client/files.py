"""An object open for reading: whole, or as it is used."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NoReturn

from botocore.exceptions import BotoCoreError
from fsspec.spec import AbstractBufferedFile, AbstractFileSystem

if TYPE_CHECKING:
    from botocore.response import StreamingBody

    from burstcache.client.paths import Info


class WholeFile(io.BytesIO):
    """An object of which all bytes are here."""

    mode = "rb"

    def __init__(self, fs: AbstractFileSystem, details: Info, body: bytes) -> None:
        super().__init__(body)
        self.fs, self.path, self.details, self.size = fs, details["name"], details, details["size"]

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the path and the position: another process opens it anew."""
        return _reopen, (self.fs, self.path, self.tell())

    def info(self) -> Info:
        """Return what was known of the object when it was opened."""
        return self.details

    def writable(self) -> bool:
        """Return False, which `BytesIO` does not."""
        return False

    def _refuse(self, *_: Any) -> NoReturn:
        raise io.UnsupportedOperation(f"{self.path} is open for reading")

    write = writelines = truncate = _refuse


class LargeFile(AbstractBufferedFile):
    """An object that is read as it is used: from the stream that opening it began, or by ranges once a reader seeks."""

    def __init__(
        self,
        fs: AbstractFileSystem,
        details: Info,
        body: StreamingBody,
        read_range: Callable[[str], bytes],
        block_size: int,
        **options: Any,
    ) -> None:
        """Begin at the start.

        Args:
            fs: The file system, by which the file is opened anew when it has been pickled.
            details: What is known of the object.
            body: The stream that opening it began.
            read_range: Returns a range of the same object, written as HTTP does: `bytes=0-499`.
            block_size: How much is read at a time once a reader seeks [bytes].
            options: fsspec's own.
        """
        self._stream: StreamingBody | None = body
        self._read_range = read_range
        self._streamed_bytes = 0
        self._pid = os.getpid()
        super().__init__(fs, details["name"], "rb", block_size, **options | {"size": details["size"]})
        self.details = details

    def close(self) -> None:
        """Close the stream, too."""
        self._close_stream()
        super().close()

    def _fetch_range(self, start: int, end: int) -> bytes:
        if self._pid != os.getpid():  # the stream is the parent's
            self._stream = None
        if self._stream is not None and start == self._streamed_bytes:
            with suppress(BotoCoreError, OSError):
                data = self._stream.read(end - start)
                self._streamed_bytes += len(data)
                return data
        self._close_stream()
        return self._read_range(f"bytes={start}-{end - 1}")

    def _close_stream(self) -> None:
        if self._stream is not None:
            self._stream.close()
            self._stream = None


def _reopen(fs: AbstractFileSystem, path: str, position: int) -> io.IOBase:
    file: io.IOBase = fs.open(path)
    file.seek(position)
    return file
