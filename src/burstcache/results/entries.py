"""A kept result, and the bytes it is where others read it, too.

Stored are a line of ASCII and the payload:

    burstcache-result/1 KIND CODEC COMPRESSION SIZE FRESH_UNTIL KEPT_UNTIL⏎

KIND is `value`, `none` (the result None) or `error` (a cached exception), COMPRESSION `plain`, `zlib` or `zstd`, SIZE
that of the payload when it is expanded [bytes], the two times are milliseconds since the epoch.
"""

from __future__ import annotations

from typing import NamedTuple

from burstcache.results.compression import Compression, compression_named

VALUE, NONE, ERROR = "value", "none", "error"
_FORMAT = b"burstcache-result/1"
_PLAIN = "plain"
LONGEST_LINE = 200


class Entry(NamedTuple):
    """What one call returned or raised, encoded.

    Up to `fresh_until_ms` it is served, up to `kept_until_ms` it is served while it is computed anew [ms since the
    epoch].
    """

    kind: str
    codec: str
    payload: bytes
    fresh_until_ms: int
    kept_until_ms: int


def pack(entry: Entry, compression: Compression | None) -> bytes:
    """Return an entry as it is stored, compressed if that makes it smaller."""
    kind, codec, payload, fresh_until_ms, kept_until_ms = entry
    name, stored = _PLAIN, payload
    if compression is not None and len(compressed := compression.compress(payload)) < len(payload):
        name, stored = compression.name, compressed
    line = f" {kind} {codec} {name} {len(payload)} {fresh_until_ms} {kept_until_ms}\n"
    return b"".join((_FORMAT, line.encode(), stored))


def unpack(data: bytes, *, most_bytes: int) -> Entry:
    """Return an entry from what is stored.

    Args:
        data: What a place has under a result's key.
        most_bytes: What its payload may have at most when it is expanded [bytes].

    Raises:
        ValueError: It is no entry, or too large.
        InvalidSettingError: Its compression cannot be undone here.
    """
    end = data.index(b"\n", 0, LONGEST_LINE)
    form, kind, codec, compression, size, fresh_until, kept_until = data[:end].split(b" ")
    size_bytes = int(size)
    if form != _FORMAT or size_bytes > most_bytes:
        raise ValueError(f"it begins with {data[:40]!r}, which is no entry of at most {most_bytes} bytes")
    payload = data[end + 1 :]
    if compression != b"plain":
        payload = compression_named(compression.decode()).expand(payload, size_bytes)
    if len(payload) != size_bytes:
        raise ValueError(f"it has {len(payload)} bytes of {size_bytes}")
    return Entry(kind.decode(), codec.decode(), payload, int(fresh_until), int(kept_until))
