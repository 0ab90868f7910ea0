"""A cached object as it travels between tiers: S3's headers and the body."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import format_datetime

from burstcache.web.headers import checked_headers, object_headers, valid_dates

_LENGTH_BYTES = 4
_MOST_META_BYTES = 32_768  # S3 takes 8 KB of headers when an object is written; JSON may double them


@dataclass(frozen=True, slots=True)
class Entry:
    """One object: what S3 said about it and its bytes.

    `meta` maps lower-case header names to values; `etag` and `content-length` (of the whole object) are always there,
    and S3's `date`, which no answer repeats, if S3 gave it.
    The body of an answer to HEAD is empty.
    """

    meta: dict[str, str]
    body: bytes

    @property
    def etag(self) -> str:
        """S3's ETag with its quotes."""
        return self.meta["etag"]

    @property
    def last_modified(self) -> str | None:
        """When the object was written, as S3 says it, to the second."""
        return self.meta.get("last-modified")

    @property
    def size_bytes(self) -> int:
        """Size of the whole object, whether or not its body is here."""
        return int(self.meta["content-length"])

    def confirmed(self, at_us: int) -> Entry:
        """Return the entry as S3 would give it now."""
        date = format_datetime(datetime.fromtimestamp(at_us // 1_000_000, UTC), usegmt=True)
        return Entry({**self.meta, "date": date}, self.body)

    def without_body(self) -> Entry:
        """Return the entry with an empty body, as a HEAD needs it."""
        return Entry(self.meta, b"")


def entry_from_s3(headers: Mapping[str, str], body: bytes) -> Entry:
    """Return the entry of a whole object that S3 sent with these headers; raise ValueError if it is not whole."""
    meta = {"content-length": str(len(body)), **_described(headers)}
    if int(meta["content-length"]) != len(body):
        raise ValueError(f"{len(body)} bytes are not the whole object, which has {meta['content-length']}")
    return Entry(meta, body)


def head_from_s3(headers: Mapping[str, str]) -> Entry:
    """Return the entry, without its body, of an object that S3 sent whole, in part or not at all with these headers."""
    total = headers.get("content-range", "").rpartition("/")[2]
    length = {"content-length": total or headers["content-length"]}
    return Entry({**_described(headers), **length}, b"")


def _described(headers: Mapping[str, str]) -> dict[str, str]:
    """Return what an entry keeps of S3's headers; a date that is none says nothing, so it is left out."""
    kept = object_headers(headers)
    kept.pop("last-modified", None)
    lower = {name.lower(): value for name, value in headers.items()}
    return kept | valid_dates(lower, "last-modified", "date")


def encode(entry: Entry) -> bytes:
    """Return the entry as it goes over the relay: length of the meta (4 bytes, big-endian), meta as JSON, body."""
    meta = encode_meta(entry.meta)
    return b"".join((len(meta).to_bytes(_LENGTH_BYTES, "big"), meta, entry.body))


def decode(data: bytes) -> Entry:
    """Return the entry in `data`; raise ValueError if it is cut short or no entry at all."""
    end = _LENGTH_BYTES + int.from_bytes(data[:_LENGTH_BYTES], "big")
    if len(data) < _LENGTH_BYTES or end > len(data):
        raise ValueError(f"{len(data)} bytes are no entry: its meta would end at {end}")
    return Entry(decode_meta(data[_LENGTH_BYTES:end]), data[end:])


def encode_meta(meta: Mapping[str, str]) -> bytes:
    """Return the meta as JSON bytes: field `meta` of the hash in Redis."""
    return json.dumps(meta, separators=(",", ":")).encode()


def decode_meta(data: bytes) -> dict[str, str]:
    """Return the headers in JSON bytes, only those of an object, or raise ValueError: `checked_headers`."""
    if len(data) > _MOST_META_BYTES:
        raise ValueError(f"the meta of an entry has {len(data):,} bytes; accepted: up to {_MOST_META_BYTES:,}")
    try:
        meta = json.loads(data, object_pairs_hook=_without_duplicates)
    except RecursionError:
        raise ValueError("the meta of an entry is nested without end") from None
    if not isinstance(meta, dict):
        raise ValueError(f"the meta of an entry is no object: {data[:100]!r}")
    return checked_headers(meta)


def _without_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
    if len(found := dict(pairs)) < len(pairs):
        raise ValueError("the meta of an entry has a name twice")
    return found
