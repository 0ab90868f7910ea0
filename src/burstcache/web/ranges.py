"""The Range header (RFC 9110, section 14), served as S3 serves it."""

from __future__ import annotations

import re
from dataclasses import dataclass

_RANGE = re.compile(r"bytes=(?:([0-9]+)-([0-9]*)|-([0-9]+))", re.IGNORECASE)
_SENT = re.compile(r"bytes[ =]([0-9]+)-([0-9]+)/([0-9]+|\*)", re.IGNORECASE)
_LARGEST = 2**63 - 1  # positions beyond are the same as this one: no object is that large


@dataclass(frozen=True, slots=True)
class ByteRange:
    """Bytes `first` to `last`, both included; without `last` up to the end; without `first` the last `last` bytes."""

    first: int | None
    last: int | None

    def __str__(self) -> str:
        first, last = ("" if number is None else number for number in (self.first, self.last))
        return f"bytes={first}-{last}"

    def within(self, size_bytes: int) -> tuple[int, int] | None:
        """Return the positions of the first byte and of the one after the last; None if no byte of the range exists.

        The last bytes of an empty object are no bytes, (0, 0), and not None: such a range can be satisfied (14.1.1).
        """
        if self.first is None:
            first, end = max(0, size_bytes - (self.last or 0)), size_bytes
            return (first, end) if self.last else None
        first, end = self.first, size_bytes if self.last is None else min(self.last + 1, size_bytes)
        return (first, end) if first < end else None


def parse_range(text: str) -> ByteRange | None:
    """Return the one range that `text` asks for; None if the whole object is the answer.

    It is for another unit, for several ranges, and for what is malformed: RFC 9110, section 14.2, lets a server ignore
    those, and S3 does (recorded by LocalStack, get_object_range; moto pull 6778; awslabs/aws-c-s3 issue 257).
    """
    if not (match := _RANGE.fullmatch(text)):
        return None
    first, last, suffix = (_position(digits) for digits in match.groups())
    if first is None:
        return ByteRange(None, suffix)
    return None if last is not None and last < first else ByteRange(first, last)


def is_part_sent(asked: ByteRange | None, content_range: str) -> bool:
    """Return whether a 206 has the bytes that were asked for; stores and gateways have sent others.

    Args:
        asked: What was asked for; None: the whole object.
        content_range: The answer's header. Where it is missing, a part that was asked for is taken for granted.
    """
    if not content_range:
        return asked is not None
    if not (match := _SENT.fullmatch(content_range.strip())):
        return False
    first, last = int(match[1]), int(match[2])
    if match[3] != "*":
        return (asked or ByteRange(0, None)).within(int(match[3])) == (first, last + 1)
    if asked is None or asked.first is None:  # the store does not say where the object ends
        return asked is not None
    return asked.first == first and (asked.last is None or last <= asked.last)


def _position(digits: str | None) -> int | None:
    if not digits:
        return None
    return min(int(digits), _LARGEST) if len(digits) < 100 else _LARGEST
