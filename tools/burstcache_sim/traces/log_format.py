"""A log format, and the parts that several formats share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import unquote_to_bytes

from burstcache_sim.traces.errors import BadRowError

UNKNOWN_BYTES = -1  # neither a 304 nor a part of an object shows the object's size
MAX_BYTES = 2**62
WHOLE_OBJECT_STATUSES = frozenset((b"200", b"203"))

# Arrival [us], object key, object size [bytes].
Request = tuple[int, bytes, int]
# What one line says: a request to be served, or None (a comment, a header, another method or status).
Parser = Callable[[bytes], Request | None]


@dataclass(frozen=True, slots=True)
class LogFormat:
    """One format: how to recognise it by a line, and how to read its lines."""

    name: str
    describes: str
    recognises: Callable[[bytes], bool]
    new_parser: Callable[[bytes], Parser]  # a parser for one file, from the file's first line
    starts_with_header: bool = False  # the first line must be recognised
    has_dates: bool = True  # times are counted from 1970, not from the start of the trace
    has_buckets: bool = False  # keys are bucket/key
    allows_blank_lines: bool = True


def without_line_end(line: bytes) -> bytes:
    """Return the line without its LF or CRLF."""
    if line.endswith(b"\n"):
        line = line[:-1]
    return line[:-1] if line.endswith(b"\r") else line


def is_served(status: bytes) -> bool:
    """True if a status is 2xx or 304.

    Raises:
        BadRowError: The status is not three digits.
    """
    if len(status) != 3 or not status.isdigit():
        raise BadRowError(f"a status of three digits, not {text(status)}")
    return status[:1] == b"2" or status == b"304"


def size_bytes(digits: bytes, status: bytes = b"200") -> int:
    """Return the object's size [bytes], `UNKNOWN_BYTES` if the line has none.

    Raises:
        BadRowError: The text is neither digits nor `-` nor empty, or exceeds the largest object.
    """
    if digits in (b"-", b""):
        return UNKNOWN_BYTES
    if not digits.isdigit() or len(digits) > 19 or int(digits) > MAX_BYTES:
        raise BadRowError(f"a size in bytes, digits only, not {text(digits)}")
    return int(digits) if status in WHOLE_OBJECT_STATUSES else UNKNOWN_BYTES


def decoded(key: bytes) -> bytes:
    """Return the object's name from a URL-encoded key."""
    return unquote_to_bytes(key) if b"%" in key else key


def path_of(target: bytes) -> bytes:
    """Return the decoded path of a request target: no scheme and host, no query (S3 names objects by path alone)."""
    if not target.startswith(b"/") and b"://" in target:
        target = b"/" + target.partition(b"://")[2].partition(b"/")[2]
    return decoded(target.partition(b"?")[0])


def text(value: bytes) -> str:
    """Return bytes as a message shows them."""
    return repr(value[:60].decode("utf-8", "backslashreplace"))
