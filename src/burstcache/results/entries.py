"""A kept result, and the bytes it is where others read it, too.

Stored are a line of ASCII and the payload:

    burstcache-result/2 KIND CODEC COMPRESSION SIZE VARIANT MADE_AT FRESH KEPT⏎

KIND is `value`, `none` (the result None) or `error` (a cached exception), COMPRESSION `plain`, `zlib` or `zstd`, SIZE
that of the payload when it is expanded [bytes], VARIANT a hash of the request's fields on which an HTTP answer depends,
or `-`, MADE_AT when the result was made [ms since the epoch], FRESH and KEPT for how long it is served and kept [ms].
"""

from __future__ import annotations

from typing import NamedTuple

from burstcache.adapters.clock import Clock, Instant, seconds_since
from burstcache.results.compression import Compression, compression_named

VALUE, NONE, ERROR = "value", "none", "error"
ANY = "-"  # variant of a result that depends on no field of the request
_FORMAT = b"burstcache-result/2"
_PLAIN = "plain"
LONGEST_LINE = 200
_MAX_SKEW_US = 60_000_000  # between the clocks of two machines; NTP keeps them within a tenth of a second


class Entry(NamedTuple):
    """What one call returned or raised, encoded.

    For `fresh_ms` it is served, for `kept_ms` it is served while it is computed anew. Both count from `made`, an
    instant by both times of this process's clock: wall time alone may be set.
    """

    kind: str
    codec: str
    payload: bytes
    made: Instant
    fresh_ms: int
    kept_ms: int
    variant: str = ANY

    def age_ms(self, clock: Clock) -> int:
        """Return how old the result is [ms], by the later of the clock's two times."""
        return int(seconds_since(clock, self.made) * 1000)


def pack(entry: Entry, compression: Compression | None) -> bytes:
    """Return an entry as it is stored, compressed if that makes it smaller."""
    payload = entry.payload
    name, stored = _PLAIN, payload
    if compression is not None and len(compressed := compression.compress(payload)) < len(payload):
        name, stored = compression.name, compressed
    times = f"{entry.made.at_us // 1000} {entry.fresh_ms} {entry.kept_ms}"
    line = f" {entry.kind} {entry.codec} {name} {len(payload)} {entry.variant} {times}\n"
    return b"".join((_FORMAT, line.encode(), stored))


def unpack(data: bytes, *, now: Instant, most_bytes: int) -> Entry:
    """Return an entry from what is stored.

    Args:
        data: What a place has under a result's key.
        now: The present, by which its age is counted.
        most_bytes: What its payload may have at most when it is expanded [bytes].

    Raises:
        ValueError: It is no entry, too large, or of the future: the clock of its maker or this one is wrong.
        InvalidSettingError: Its compression cannot be undone here.
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
    return Entry(kind.decode(), codec.decode(), payload, made, int(fresh), int(kept), variant.decode())
