"""The Range header (RFC 9110, section 14), served as S3 serves it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from burstcache.core.errors import RefusedRequestError

_BYTES_UNIT = re.compile(r"bytes=", re.IGNORECASE)
_OTHER_UNIT = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+=\S.*")
_SPEC = re.compile(r"([0-9]*)-([0-9]*)")
_LARGEST = 2**63 - 1  # positions beyond are the same as this one: no object is that large
_ACCEPTED = "accepted: bytes=first-last, bytes=first- or bytes=-length, for example bytes=0-499"


@dataclass(frozen=True, slots=True)
class ByteRange:
    """Bytes `first` to `last`, both included; without `last` up to the end; without `first` the last `last` bytes."""

    first: int | None
    last: int | None

    def __str__(self) -> str:
        first, last = ("" if number is None else number for number in (self.first, self.last))
        return f"bytes={first}-{last}"

    def within(self, size_bytes: int) -> tuple[int, int] | None:
        """Return the positions of the first byte and of the one after the last; None if no byte of the range exists."""
        if self.first is None:
            first, end = max(0, size_bytes - (self.last or 0)), size_bytes
        else:
            first, end = self.first, size_bytes if self.last is None else min(self.last + 1, size_bytes)
        return (first, end) if first < end else None


def parse_range(text: str) -> ByteRange | None:
    """Return the one range that `text` asks for; None for another unit or several ranges.

    S3 answers both with the whole object (measured by others: awslabs/aws-c-s3 issue 257, basho/riak_cs pull 304).

    Raises:
        RefusedRequestError: 400 for a malformed range. S3 would send the whole object and hide the client's error.
    """
    if not (unit := _BYTES_UNIT.match(text)):
        if _OTHER_UNIT.fullmatch(text):
            return None
        raise _malformed(text)
    ranges = [_parse_spec(spec.strip(" \t"), text) for spec in text[unit.end() :].split(",")]
    return ranges[0] if len(ranges) == 1 else None


def _parse_spec(spec: str, text: str) -> ByteRange:
    match = _SPEC.fullmatch(spec)
    if not match or spec == "-":
        raise _malformed(text)
    first, last = (_position(digits) for digits in match.groups())
    if first is not None and last is not None and last < first:
        raise _malformed(text)
    return ByteRange(first, last)


def _position(digits: str) -> int | None:
    if not digits:
        return None
    return min(int(digits), _LARGEST) if len(digits) < 100 else _LARGEST


def _malformed(text: str) -> RefusedRequestError:
    return RefusedRequestError(400, "MalformedRange", f"Range {text[:100]!r} is malformed; {_ACCEPTED}")
