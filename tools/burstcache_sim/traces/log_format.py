"""Log formats with their parsers, and shared helpers."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from re import Pattern
from re import compile as regex
from urllib.parse import unquote_to_bytes

from burstcache_sim.traces.errors import BadRowError
from burstcache_sim.traces.ranges import UNKNOWN_BYTES, ResponseContent, response_content

MAX_BYTES = 2**62
_DECIMAL = regex(rb"\d+\.0*")
_THOUSANDS = regex(rb"\d{1,3}(?:,\d{3})+")

# Arrival [us], object name, response content.
Request = tuple[int, bytes, ResponseContent]
# Parses a line into its request, or into None for a comment, a header, or another method or status.
RowParser = Callable[[bytes], Request | None]


def is_served(status: bytes) -> bool:
    """Return whether a status is 2xx or 304.

    Raises:
        BadRowError: The status is not three digits.
    """
    if len(status) != 3 or not status.isdigit():
        raise BadRowError(f"a status of three digits, not {text(status)}")
    return status[:1] == b"2" or status == b"304"


def size_bytes(digits: bytes) -> int:
    """Parse a size [bytes]. `-` and an empty string become `UNKNOWN_BYTES`.

    Raises:
        BadRowError: The text is not digits, `-` or empty, or exceeds the largest object.
    """
    if digits in (b"-", b""):
        return UNKNOWN_BYTES
    whole = digits if digits.isdigit() else _whole_number(digits)
    if len(whole) > 19 or int(whole) > MAX_BYTES:
        raise BadRowError(f"a size of at most {MAX_BYTES} bytes, not {text(digits)}")
    return int(whole)


def _whole_number(digits: bytes) -> bytes:
    """Return the digits of a whole number written like `7627.0` or `1,234`."""
    if _DECIMAL.fullmatch(digits):
        return digits.partition(b".")[0]
    if _THOUSANDS.fullmatch(digits):
        return digits.replace(b",", b"")
    raise BadRowError(f"a size in bytes, digits only, not {text(digits)}")


@lru_cache(maxsize=4096)
def parse_content(
    status: bytes, size: bytes, sent: bytes = b"", object_: bytes = b"", range_: bytes = b""
) -> ResponseContent:
    """Determine a response's content from its status, body length, bytes sent, object size and range.

    Raises:
        BadRowError: A number of bytes is not digits, `-` or empty, or exceeds the largest object.
    """
    return response_content(
        status,
        body_bytes=size_bytes(size),
        sent_bytes=0 if size == b"-" and not sent else size_bytes(sent),
        object_bytes=size_bytes(object_),
        range_=range_,
    )


@dataclass(frozen=True, slots=True)
class FieldPattern:
    """A pattern that finds the fields of many lines in one pass, and functions that parse the fields.

    The pattern matches one whole line including its line ending. `time_us` takes the group `time`, and `is_served`
    takes `status`. `parse_content` takes `status`, `size`, `sent`, `object` and `range`; groups that the pattern lacks
    are empty. `name` takes all other groups in order. The row parser handles blocks that raise `BadRowError`.
    """

    pattern: Pattern[bytes]
    time_us: Callable[[bytes], int]
    name: Callable[[tuple[bytes, ...]], bytes | None]  # returns None for requests other than GETs of objects
    is_served: Callable[[bytes], bool] = is_served  # not called without the group `status`: every line counts as served
    parse_content: Callable[[bytes, bytes, bytes, bytes, bytes], ResponseContent] = parse_content
    rows_only: bytes = b"\n\n\n"  # the row parser handles blocks that contain this text


@dataclass(slots=True)
class LogParser:
    """The parser of one file, which parses either row by row or, faster, in bulk.

    Both methods return the same result for every line that `fields` matches. A header line may replace `fields`.
    """

    row: RowParser
    fields: FieldPattern | None = None


def lines_of(block: bytes) -> Iterable[bytes]:
    """Return the lines of a block with their ends."""
    return io.BytesIO(block)


@dataclass(frozen=True, slots=True)
class LogFormat:
    """A log format, with functions that detect it from a file's first lines and create parsers."""

    name: str
    describes: str
    recognises: Callable[[list[bytes]], bool]  # takes a file's first lines, at least one
    new_parser: Callable[[bytes], LogParser]  # for one file, takes the first line
    rows: Callable[[bytes], Iterable[bytes]] = lines_of  # splits a block
    starts_with_header: bool = False  # the format is recognised from the first line
    has_dates: bool = True  # times count from 1970, not from the start of the trace
    has_keys: bool = True
    has_buckets: bool = False  # keys are bucket/key
    has_paths: bool = False  # keys are paths, with a slash before the object's name
    allows_blank_lines: bool = True
    note: str = ""  # assumptions to print


@dataclass(frozen=True, slots=True)
class FormatCandidate:
    """A candidate for a file's format, which may depend on the file's first lines."""

    name: str
    describes: str
    find: Callable[[list[bytes]], LogFormat | None]  # takes a file's first lines, at least one
    fixed: LogFormat | None = None  # the format, if it does not depend on the first lines

    @classmethod
    def of(cls, format_: LogFormat) -> FormatCandidate:
        """Return the candidate for a format that does not depend on the first lines."""
        return cls(format_.name, format_.describes, lambda head: format_ if format_.recognises(head) else None, format_)


def without_line_end(line: bytes) -> bytes:
    """Strip the line's LF or CRLF."""
    if line.endswith(b"\n"):
        line = line[:-1]
    return line[:-1] if line.endswith(b"\r") else line


def decoded(key: bytes) -> bytes:
    """Decode a URL-encoded key to the object's name."""
    return unquote_to_bytes(key) if b"%" in key else key


def path_of(target: bytes) -> bytes:
    """Return the decoded path of a request target. Scheme, host and query do not identify an S3 object."""
    if not target.startswith(b"/") and b"://" in target:
        target = b"/" + target.partition(b"://")[2].partition(b"/")[2]
    return decoded(target.partition(b"?")[0])


def target_of(request: bytes) -> bytes | None:
    """Return the target of a request line (`GET /a HTTP/1.1`), or None if the method is not GET."""
    if not request.startswith(b"GET "):
        return None
    return request[4:].rpartition(b" HTTP/")[0] or request[4:]


def text(value: bytes) -> str:
    """Return bytes as printable text for a message."""
    return ascii(value[:60].decode("utf-8", "backslashreplace"))
