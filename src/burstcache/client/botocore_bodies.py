"""Bodies of responses as botocore reads them: from memory, from slices, or from S3 with a record for the cache."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import IncompleteRead
from typing import Any

import botocore
import urllib3
from urllib3.exceptions import ProtocolError

from burstcache.client.streams import ObjectFile
from burstcache.core.errors import BurstcacheError

_CHUNK_BYTES = 1 << 20
# Since 1.43.115, botocore alone verifies a body's length. Before that, urllib3 2 did so, too, with its own error.
_LENGTH_CHECK: dict[str, Any] = (
    {"enforce_content_length": False}
    if tuple(map(int, botocore.__version__.split(".")[:3])) >= (1, 43, 115)
    else {}  # botocore used urllib3's default
)


def raw_response(body: Any, headers: Any, status: int, method: str) -> urllib3.HTTPResponse:
    """Return the urllib3 response from which botocore's bodies read."""
    return urllib3.HTTPResponse(
        body,
        headers,
        status,
        preload_content=False,
        decode_content=False,
        request_method=method,
        **_LENGTH_CHECK,
    )


class _NoSocket:
    """A dummy for the socket on which botocore sets a body's timeout. A body in memory never blocks."""

    def __init__(self) -> None:
        self.raw = self._sock = self

    def settimeout(self, timeout: float | None) -> None:
        """Do nothing."""


class BodyInMemory(io.BytesIO):
    """A body in memory."""

    fp = _NoSocket()


class ReplayedBody(BodyInMemory):
    """A body buffered from a stream. A read beyond the received bytes raises the stream's own error."""

    def __init__(self, stream: Any, length_bytes: int) -> None:
        super().__init__()
        self.error: Exception | None = None
        self._length_bytes = length_bytes
        try:
            while chunk := stream.read(_CHUNK_BYTES):
                self.write(chunk)
        except Exception as error:
            self.error = error
        self.seek(0)

    def read(self, size: int | None = -1) -> bytes:
        """Read like the stream."""
        data = super().read(size)
        missing = self._length_bytes - self.getbuffer().nbytes
        if missing > 0 and self.error is None and (size is None or size < 0):
            raise IncompleteRead(data, missing)
        if self.error is not None and (size is None or size < 0 or (size and not data)):
            raise self.error
        return data

    def readinto(self, buffer: Any) -> int:
        """Read like the stream."""
        size_bytes = super().readinto(buffer)
        if self.error is not None and len(buffer) and not size_bytes:
            raise self.error
        return size_bytes


class BodyInSlices(io.RawIOBase):
    """The body of a large object, for botocore. It raises errors that botocore handles."""

    fp = _NoSocket()

    def __init__(self, file: ObjectFile) -> None:
        self.burstcache_file = file

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        with _as_urllib3_error():
            return self.burstcache_file.readinto(buffer)

    def read(self, size: int | None = -1) -> bytes:
        with _as_urllib3_error():
            return self.burstcache_file.read(size)

    def close(self) -> None:
        self.burstcache_file.close()
        super().close()


@contextmanager
def _as_urllib3_error() -> Iterator[None]:
    try:
        yield
    except BurstcacheError as error:
        raise ProtocolError(str(error)) from error


class RecordingStream:
    """A stream of S3's body that records the bytes read. `on_complete` gets the whole body after its last byte.

    Only `read` and `readinto` are recorded. botocore's `StreamingBody` uses them for everything except lines.
    """

    def __init__(self, stream: Any, length_bytes: int, on_complete: Callable[[bytes], None]) -> None:
        self._stream = stream
        self._left_bytes = length_bytes
        self._on_complete: Callable[[bytes], None] | None = on_complete
        self._chunks: list[bytes] = []

    def read(self, *arguments: Any, **named: Any) -> bytes:
        """Read from the stream."""
        chunk: bytes = self._stream.read(*arguments, **named)
        self._record(chunk)
        return chunk

    def readinto(self, buffer: Any) -> int:
        """Read from the stream."""
        size_bytes: int = self._stream.readinto(buffer)
        self._record(bytes(memoryview(buffer)[:size_bytes]))
        return size_bytes

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._stream)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def _record(self, chunk: bytes) -> None:
        if self._on_complete is None:
            return
        self._chunks.append(chunk)
        self._left_bytes -= len(chunk)
        if self._left_bytes == 0:
            on_complete, self._on_complete = self._on_complete, None
            on_complete(b"".join(self._chunks))


def checksum_check(body: Any) -> Callable[[bytes], bool]:
    """Return a function that checks bytes against the checksum that S3 sent with a body, if any.

    The function has no reference to the body. botocore itself checks only after it has returned all bytes.
    """
    if (expected := getattr(body, "_expected", None)) is None:  # only a StreamingChecksumBody has it
        return lambda read: True
    checksum = getattr(body, "checksum", None) or getattr(body, "_checksum", None)  # private before botocore 1.41
    if checksum is None:  # bodies that cannot be checked are not cached
        return lambda read: False
    make, digest = type(checksum), base64.b64decode(expected)

    def is_intact(read: bytes) -> bool:
        checksum = make()
        checksum.update(read)
        return bool(checksum.digest() == digest)

    return is_intact
