"""A log format, and the parts that several formats share."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from re import Pattern
from re import compile as regex
from urllib.parse import unquote_to_bytes

from burstcache_sim.traces.errors import BadRowError
from burstcache_sim.traces.ranges import UNKNOWN_BYTES, Answer, answer_of

MAX_BYTES = 2**62
_DECIMAL = regex(rb"\d+\.0*")
_THOUSANDS = regex(rb"\d{1,3}(?:,\d{3})+")

# Arrival [us], the object's name, what was sent of it.
Request = tuple[int, bytes, Answer]
# What one line says: a request to be served, or None (a comment, a header, another method or status).
RowParser = Callable[[bytes], Request | None]


def is_served(status: bytes) -> bool:
    """True if a status is 2xx or 304.

    Raises:
        BadRowError: The status is not three digits.
    """
    if len(status) != 3 or not status.isdigit():
        raise BadRowError(f"a status of three digits, not {text(status)}")
    return status[:1] == b"2" or status == b"304"


def size_bytes(digits: bytes) -> int:
    """Return a size [bytes], `UNKNOWN_BYTES` if the line has none.

    Raises:
        BadRowError: The text is neither digits nor `-` nor empty, or exceeds the largest object.
    """
    if digits in (b"-", b""):
        return UNKNOWN_BYTES
    whole = digits if digits.isdigit() else _whole_number(digits)
    if len(whole) > 19 or int(whole) > MAX_BYTES:
        raise BadRowError(f"a size of at most {MAX_BYTES} bytes, not {text(digits)}")
    return int(whole)


def _whole_number(digits: bytes) -> bytes:
    """Return the digits of `7627.0` or `1,234`."""
    if _DECIMAL.fullmatch(digits):
        return digits.partition(b".")[0]
    if _THOUSANDS.fullmatch(digits):
        return digits.replace(b",", b"")
    raise BadRowError(f"a size in bytes, digits only, not {text(digits)}")


@lru_cache(maxsize=4096)
def answer_in(status: bytes, size: bytes, sent: bytes = b"", object_: bytes = b"", range_: bytes = b"") -> Answer:
    """Return what a response carried, from texts: the length of its body, the bytes sent, the object's size, the range.

    Raises:
        BadRowError: A number of bytes is neither digits nor `-` nor empty, or exceeds the largest object.
    """
    return answer_of(
        status,
        body_bytes=size_bytes(size),
        sent_bytes=0 if size == b"-" and not sent else size_bytes(sent),
        object_bytes=size_bytes(object_),
        range_=range_,
    )


@dataclass(frozen=True, slots=True)
class Fields:
    """How many lines are read at once: a pattern that finds the fields, and what each distinct text in them means.

    The pattern matches one whole line with its end. Its groups `time` and `status` have a function each; `status`,
    `size`, `sent`, `object` and `range` say what was sent, each empty if the pattern lacks it; all other groups
    together, in their order, are the name. What a function refuses is left to the parser of rows.
    """

    pattern: Pattern[bytes]
    time_us: Callable[[bytes], int]
    name: Callable[[tuple[bytes, ...]], bytes | None]  # None: not a GET of an object
    is_served: Callable[[bytes], bool] = is_served  # without the group `status`, all are
    answer: Callable[[bytes, bytes, bytes, bytes, bytes], Answer] = answer_in  # of status, size, sent, object, range
    rows_only: bytes = b"\n\n\n"  # blocks with this text are left to the parser of rows


@dataclass(slots=True)
class Parser:
    """What reads one file: a row at a time, which is exact about everything, or many at once, which is fast.

    Both give the same for every line that `fields` matches; a line of headers may change it.
    """

    row: RowParser
    fields: Fields | None = None


def lines_of(block: bytes) -> Iterable[bytes]:
    """Return the lines of a block with their ends."""
    return io.BytesIO(block)


@dataclass(frozen=True, slots=True)
class LogFormat:
    """One format: how to recognise it by a file's first lines, and how to read its lines."""

    name: str
    describes: str
    recognises: Callable[[list[bytes]], bool]  # a file with these first lines, at least one
    new_parser: Callable[[bytes], Parser]  # a parser for one file, from the file's first line
    rows: Callable[[bytes], Iterable[bytes]] = lines_of  # of a block
    starts_with_header: bool = False  # recognised by the first line
    has_dates: bool = True  # times are counted from 1970, not from the start of the trace
    has_keys: bool = True
    has_buckets: bool = False  # keys are bucket/key
    has_paths: bool = False  # keys are paths, with a slash before the name of the object
    allows_blank_lines: bool = True
    note: str = ""  # what was taken for granted


@dataclass(frozen=True, slots=True)
class Candidate:
    """A format that a file may have, with what depends on its first lines."""

    name: str
    describes: str
    find: Callable[[list[bytes]], LogFormat | None]  # from a file's first lines, at least one
    fixed: LogFormat | None = None  # the format, if nothing of it depends on them

    @classmethod
    def of(cls, format_: LogFormat) -> Candidate:
        """Return the candidate for a format of which nothing depends on the first lines."""
        return cls(format_.name, format_.describes, lambda head: format_ if format_.recognises(head) else None, format_)


def without_line_end(line: bytes) -> bytes:
    """Return the line without its LF or CRLF."""
    if line.endswith(b"\n"):
        line = line[:-1]
    return line[:-1] if line.endswith(b"\r") else line


def decoded(key: bytes) -> bytes:
    """Return the object's name from a URL-encoded key."""
    return unquote_to_bytes(key) if b"%" in key else key


def path_of(target: bytes) -> bytes:
    """Return the decoded path of a request target: no scheme and host, no query (S3 names objects by path alone)."""
    if not target.startswith(b"/") and b"://" in target:
        target = b"/" + target.partition(b"://")[2].partition(b"/")[2]
    return decoded(target.partition(b"?")[0])


def target_of(request: bytes) -> bytes | None:
    """Return what the first line of a request (`GET /a HTTP/1.1`) asks for; None if it is not a GET."""
    if not request.startswith(b"GET "):
        return None
    return request[4:].rpartition(b" HTTP/")[0] or request[4:]


def text(value: bytes) -> str:
    """Return bytes as a message shows them."""
    return ascii(value[:60].decode("utf-8", "backslashreplace"))
