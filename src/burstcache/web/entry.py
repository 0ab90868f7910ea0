"""A cache entry, the representation of an object in all tiers: S3's headers and the body."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import format_datetime
from functools import lru_cache

from burstcache.web.headers import checked_headers, object_headers, valid_dates

_LENGTH_BYTES = 4
_MOST_DECODED, _MOST_DECODED_BYTES = 1024, 2048  # recently decoded headers, and the longest of them
_MOST_META_BYTES = 32_768  # S3 accepts 8 KB of headers with a write, and JSON escaping may double their size


@dataclass(frozen=True, slots=True)
class Entry:
    """A cached object: S3's headers and the body, which is empty after a HEAD.

    `meta` maps lower-case header names to values. It always has `etag` and `content-length` (of the whole object), and
    `date` if S3 sent one. Responses omit `date`.
    """

    meta: dict[str, str]
    body: bytes

    @property
    def etag(self) -> str:
        """S3's ETag with its quotes."""
        return self.meta["etag"]

    @property
    def last_modified(self) -> str | None:
        """Time of the object's last write according to S3, with a resolution of one second."""
        return self.meta.get("last-modified")

    @property
    def size_bytes(self) -> int:
        """Size of the whole object, even if the body is empty."""
        return int(self.meta["content-length"])

    def confirmed(self, at_us: int) -> Entry:
        """Return the entry with `date` set to the time of a revalidation by S3."""
        date = format_datetime(datetime.fromtimestamp(at_us // 1_000_000, UTC), usegmt=True)
        return Entry({**self.meta, "date": date}, self.body)

    def without_body(self) -> Entry:
        """Return the entry with an empty body, for HEAD."""
        return Entry(self.meta, b"")


def entry_from_s3(headers: Mapping[str, str], body: bytes) -> Entry:
    """Build the entry of a whole object from S3's response. Raise ValueError if the body is incomplete."""
    meta = {"content-length": str(len(body)), **_described(headers)}
    if int(meta["content-length"]) != len(body):
        raise ValueError(f"{len(body)} bytes are not the whole object, which has {meta['content-length']}")
    return Entry(meta, body)


def head_from_s3(headers: Mapping[str, str]) -> Entry:
    """Build an entry without a body from S3's response to a GET (whole or range) or HEAD."""
    total = headers.get("content-range", "").rpartition("/")[2]
    length = {"content-length": total or headers["content-length"]}
    return Entry({**_described(headers), **length}, b"")


def _described(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the subset of S3's headers that an entry keeps, without malformed dates."""
    kept = object_headers(headers)
    kept.pop("last-modified", None)
    lower = {name.lower(): value for name, value in headers.items()}
    return kept | valid_dates(lower, "last-modified", "date")


def encode(entry: Entry) -> bytes:
    """Encode an entry for the relay: length of the meta (4 bytes, big-endian), meta as JSON, body."""
    meta = encode_meta(entry.meta)
    return b"".join((len(meta).to_bytes(_LENGTH_BYTES, "big"), meta, entry.body))


def decode(data: bytes) -> Entry:
    """Decode an entry. Raise ValueError if it is truncated or malformed."""
    end = body_offset(data)
    return decode_parts(data[:end], data[end:])


def decode_parts(begin: bytes, body: bytes) -> Entry:
    """Decode an entry from the bytes before its body, and the body. Raise ValueError if they are malformed."""
    if len(begin) < _LENGTH_BYTES or (end := body_offset(begin)) > len(begin):
        raise ValueError(f"{len(begin)} bytes are not an entry: its meta would end at {body_offset(begin)}")
    return Entry(decode_meta(begin[_LENGTH_BYTES:end]), body)


def body_offset(data: bytes) -> int:
    """Return the offset of the body in an encoded entry, of which at least the first four bytes are given."""
    return _LENGTH_BYTES + int.from_bytes(data[:_LENGTH_BYTES], "big")


def encode_meta(meta: Mapping[str, str]) -> bytes:
    """Encode the headers as JSON bytes, the field `meta` of the hash in Redis."""
    return json.dumps(meta, separators=(",", ":")).encode()


def decode_meta(data: bytes) -> dict[str, str]:
    """Decode and validate headers in JSON bytes (`checked_headers`), or raise ValueError."""
    if len(data) > _MOST_META_BYTES:
        raise ValueError(f"the meta of an entry has {len(data):,} bytes; accepted: up to {_MOST_META_BYTES:,}")
    return dict(_decode_again(data)) if len(data) <= _MOST_DECODED_BYTES else _decode_meta(data)


@lru_cache(_MOST_DECODED)  # hits decode the same few headers
def _decode_again(data: bytes) -> dict[str, str]:
    return _decode_meta(data)


def _decode_meta(data: bytes) -> dict[str, str]:
    try:
        meta = json.loads(data, object_pairs_hook=_without_duplicates)
    except RecursionError:
        raise ValueError("the meta of an entry is nested too deeply") from None
    if not isinstance(meta, dict):
        raise ValueError(f"the meta of an entry is not a JSON object: {data[:100]!r}")
    return checked_headers(meta)


def _without_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
    if len(members := dict(pairs)) < len(pairs):
        raise ValueError("the meta of an entry has a duplicate name")
    return members
