"""Entries: cached results, and their format in shared stores.

An entry in a store is a line of ASCII, followed by the payload:

    burstcache-result/2 KIND CODEC COMPRESSION SIZE VARIANT MADE_AT FRESH KEPT⏎

    KIND         `value`, `none` (the result None) or `error` (a cached exception)
    COMPRESSION  `plain`, `zlib` or `zstd`
    SIZE         size of the uncompressed payload [bytes]
    VARIANT      hash of the request fields by which an HTTP response varies, or `-`
    MADE_AT      time of the computation [ms since the epoch]
    FRESH, KEPT  lifetime as a fresh result, and total lifetime [ms]
"""

from __future__ import annotations

from typing import NamedTuple

from burstcache.adapters.clock import Clock, Instant, seconds_since
from burstcache.results.compression import Compression, compression_named

VALUE, NONE, ERROR = "value", "none", "error"
ANY = "-"  # variant of a result that does not vary by request fields
_FORMAT = b"burstcache-result/2"
_PLAIN = "plain"
LONGEST_LINE = 200
_MAX_SKEW_US = 60_000_000  # between two machines' clocks; NTP keeps them within a tenth of a second


class ResultEntry(NamedTuple):
    """The encoded result of one call: a returned value or a raised exception.

    The entry is fresh for `fresh_ms`, and then stale until `kept_ms`. A stale entry is served while it is revalidated.
    Both durations count from `made`, in monotonic and wall-clock time, since the wall clock may be set back.
    """

    kind: str
    codec: str
    payload: bytes
    made: Instant
    fresh_ms: int
    kept_ms: int
    variant: str = ANY

    def age_ms(self, clock: Clock) -> int:
        """Return the result's age [ms], the larger of its monotonic and its wall-clock age."""
        return int(seconds_since(clock, self.made) * 1000)


def pack(entry: ResultEntry, compression: Compression | None) -> bytes:
    """Return the stored form of an entry, compressed if that makes it smaller."""
    payload = entry.payload
    name, stored = _PLAIN, payload
    if compression is not None and len(compressed := compression.compress(payload)) < len(payload):
        name, stored = compression.name, compressed
    times = f"{entry.made.at_us // 1000} {entry.fresh_ms} {entry.kept_ms}"
    line = f" {entry.kind} {entry.codec} {name} {len(payload)} {entry.variant} {times}\n"
    return b"".join((_FORMAT, line.encode(), stored))


def unpack(data: bytes, *, now: Instant, most_bytes: int) -> ResultEntry:
    """Parse the stored form of an entry.

    Args:
        data: The bytes stored at a result's key.
        now: The current time, to compute the entry's age.
        most_bytes: Maximum size of the uncompressed payload [bytes].

    Raises:
        ValueError: The data is not an entry, is too large, or has a future timestamp because of a wrong clock.
        InvalidSettingError: This process does not support the entry's compression.
    """
    end = data.index(b"\n", 0, LONGEST_LINE)
    form, kind, codec, compression, size, variant, made_at, fresh, kept = data[:end].split(b" ")
    size_bytes = int(size)
    if form != _FORMAT or size_bytes > most_bytes:
        raise ValueError(f"it begins with {data[:40]!r}, which is no entry of at most {most_bytes} bytes")
    payload = data[end + 1 :]
    if compression != b"plain":
        payload = compression_named(compression.decode()).expand(payload, size_bytes)
    if len(payload) != size_bytes:
        raise ValueError(f"it has {len(payload)} bytes of {size_bytes}")
    age_us = now.at_us - int(made_at) * 1000
    if age_us < -_MAX_SKEW_US:
        raise ValueError(f"it was made {-age_us / 1e6:.0f} s in the future")
    age_us = max(0, age_us)
    made = Instant(now.monotonic_s - age_us / 1e6, now.at_us - age_us)
    return ResultEntry(kind.decode(), codec.decode(), payload, made, int(fresh), int(kept), variant.decode())
