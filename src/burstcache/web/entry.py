"""A cached object as it travels between tiers: S3's headers and the body."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import format_datetime

from burstcache.web.headers import object_headers

_LENGTH_BYTES = 4


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
    meta = {"content-length": str(len(body)), **object_headers(headers), **_date(headers)}
    if int(meta["content-length"]) != len(body):
        raise ValueError(f"{len(body)} bytes are not the whole object, which has {meta['content-length']}")
    return Entry(meta, body)


def head_from_s3(headers: Mapping[str, str]) -> Entry:
    """Return the entry, without its body, of an object that S3 sent whole, in part or not at all with these headers."""
    total = headers.get("content-range", "").rpartition("/")[2]
    length = {"content-length": total or headers["content-length"]}
    return Entry({**object_headers(headers), **_date(headers), **length}, b"")


def _date(headers: Mapping[str, str]) -> dict[str, str]:
    return {"date": headers["date"]} if "date" in headers else {}


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
    """Return the meta in JSON bytes, or raise ValueError."""
    meta = json.loads(data)
    if not isinstance(meta, dict) or "etag" not in meta or not str(meta.get("content-length", "")).isdigit():
        raise ValueError(f"the meta of an entry needs etag and content-length: {data[:200]!r}")
    return meta
