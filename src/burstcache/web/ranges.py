"""Byte ranges: the Range header (RFC 9110, section 14), interpreted as S3 interprets it."""

from __future__ import annotations

import re
from dataclasses import dataclass

_RANGE = re.compile(r"bytes=(?:([0-9]+)-([0-9]*)|-([0-9]+))", re.IGNORECASE)
_SENT = re.compile(r"bytes[ =]([0-9]+)-([0-9]+)/([0-9]+|\*)", re.IGNORECASE)
_LARGEST = 2**63 - 1  # upper limit of positions, beyond any object's size


@dataclass(frozen=True, slots=True)
class ByteRange:
    """Bytes `first` to `last`, inclusive. Without `last`: to the end. Without `first`: a suffix of `last` bytes."""

    first: int | None
    last: int | None

    def __str__(self) -> str:
        first, last = ("" if number is None else number for number in (self.first, self.last))
        return f"bytes={first}-{last}"

    def within(self, size_bytes: int) -> tuple[int, int] | None:
        """Return the range's start and exclusive end in an object of this size, or None if unsatisfiable.

        A suffix range of an empty object is satisfiable (14.1.1), and returns (0, 0).
        """
        if self.first is None:
            first, end = max(0, size_bytes - (self.last or 0)), size_bytes
            return (first, end) if self.last else None
        first, end = self.first, size_bytes if self.last is None else min(self.last + 1, size_bytes)
        return (first, end) if first < end else None


def parse_range(text: str) -> ByteRange | None:
    """Parse a Range header with a single range. Return None if the response must be the whole object.

    Other units, multiple ranges and malformed headers are ignored. RFC 9110, section 14.2, permits this, and S3 does so
    (recorded by LocalStack, get_object_range; moto pull 6778; awslabs/aws-c-s3 issue 257).
    """
    if not (match := _RANGE.fullmatch(text)):
        return None
    begin, end, suffix = match.groups()
    if suffix:
        return ByteRange(None, _position(suffix))
    first, last = _position(begin), _position(end) if end else None
    return None if last is not None and last < first else ByteRange(first, last)


def is_part_sent(requested: ByteRange | None, content_range: str) -> bool:
    """Return True if a 206 contains the requested bytes. Some stores and gateways have sent other bytes.

    Args:
        requested: The requested range. None: the whole object.
        content_range: The response's header. If it is missing, the requested range is assumed.
    """
    if not content_range:
        return requested is not None
    if not (match := _SENT.fullmatch(content_range.strip())):
        return False
    first, last = int(match[1]), int(match[2])
    if match[3] != "*":
        return (requested or ByteRange(0, None)).within(int(match[3])) == (first, last + 1)
    if requested is None or requested.first is None:  # the size is unknown, so the end cannot be checked
        return requested is not None
    return requested.first == first and (requested.last is None or last <= requested.last)


def _position(digits: str) -> int:
    return min(int(digits), _LARGEST) if len(digits) < 100 else _LARGEST
