"""Ranges of objects. A 206 response carries a piece of an object, and each piece is cached separately.

A piece is named by its range if the log has the range. If the log has only the bytes sent, pieces of the same object
and length count as the same range. Keys are bytes: the object's name, or the name, a NUL and the range.

Source:
    RFC 9110, 14.1.2 "Byte Ranges" and 15.3.7 "206 Partial Content".
"""

from __future__ import annotations

from re import compile as regex
from typing import NamedTuple

UNKNOWN_BYTES = -1  # for example the object's size in a 304 or a 206
WHOLE_OBJECT_STATUSES = frozenset((b"200", b"203"))
_PART, _NOT_MODIFIED = b"206", b"304"
_HEADERS_BYTES = 16 * 1024  # some logs count headers, which are rarely larger
_SEPARATOR = b"\0"
_UNKNOWN_PIECE = b"?"
_RANGE = regex(rb"(?:bytes[= ])?(\d{0,18})-(\d{0,18})(?:/(?:\d+|\*))?")
_TEXT = regex(r" \[bytes (\d{1,18})-\d*\]")
_DIGIT = regex(rb"\d")
_SPACES = regex(rb"\s+")


class ResponseContent(NamedTuple):
    """The piece of an object that a response contains, with sizes."""

    piece: bytes  # `first-last` byte, `p` and the part number, or only the length (empty: the whole object)
    size_bytes: int  # of the piece
    sent_bytes: int  # of the body (UNKNOWN_BYTES: equal to the size)
    object_bytes: int  # of a piece's object (UNKNOWN_BYTES: not in the log, or the content is the whole object)


def response_content(
    status: bytes,
    *,
    body_bytes: int = UNKNOWN_BYTES,
    sent_bytes: int = UNKNOWN_BYTES,
    object_bytes: int = UNKNOWN_BYTES,
    range_: bytes = b"",
) -> ResponseContent:
    """Return the content of a response.

    Args:
        status: The HTTP status.
        body_bytes: Announced length of the body, or the sent length if the log has no other. A length far above that
        of the range is taken as the object's size.
        sent_bytes: Sent bytes of the body, if the log has both lengths. Less than `body_bytes` if the client
        disconnected.
        object_bytes: Size of the whole object.
        range_: `bytes=0-65535` as requested, `0-65535`, or `p3` for the third part. Empty if not in the log.
    """
    if status == _NOT_MODIFIED:
        return ResponseContent(b"", object_bytes, 0, UNKNOWN_BYTES)
    if status == _PART and (max_bytes := _max_body_bytes(range_)) is not None:
        if object_bytes == UNKNOWN_BYTES and body_bytes > max_bytes + _HEADERS_BYTES:
            object_bytes = body_bytes  # too long for the range, so this is the object's size
        body_bytes, sent_bytes = min(body_bytes, max_bytes), min(sent_bytes, max_bytes)
    known_bytes = _first_known(body_bytes, sent_bytes or UNKNOWN_BYTES)  # a size cannot follow from 0 bytes sent
    sent_bytes = _first_known(sent_bytes, body_bytes)
    if status == _PART:
        piece, size_bytes = _piece(range_, known_bytes, object_bytes)
    else:
        piece = b""
        size_bytes = _first_known(object_bytes, known_bytes if status in WHOLE_OBJECT_STATUSES else UNKNOWN_BYTES)
    return ResponseContent(
        piece,
        size_bytes,
        UNKNOWN_BYTES if sent_bytes == size_bytes else sent_bytes,
        object_bytes if piece else UNKNOWN_BYTES,
    )


def has_range(text: bytes) -> bool:
    """Return whether a range field has a range instead of a placeholder."""
    return _DIGIT.search(text) is not None


def _max_body_bytes(range_: bytes) -> int | None:
    """Return the maximum body length for a range [bytes], or None if the range has no end."""
    match = _RANGE.fullmatch(range_)
    if match is None or not match[2]:
        return None
    return max(0, int(match[2]) - int(match[1]) + 1) if match[1] else int(match[2])


def _first_known(*amounts: int) -> int:
    return next((amount for amount in amounts if amount != UNKNOWN_BYTES), UNKNOWN_BYTES)


def _piece(range_: bytes, known_bytes: int, object_bytes: int) -> tuple[bytes, int]:
    """Return a piece's name (empty for the whole object) and size [bytes]."""
    if (match := _RANGE.fullmatch(range_)) and any(match.groups()):
        return _range(match[1], match[2], known_bytes, object_bytes)
    if has_range(range_):  # a part number, or several ranges in one response
        return _SPACES.sub(b"", range_.replace(_SEPARATOR, b"")).removeprefix(b"bytes="), known_bytes
    if known_bytes in (UNKNOWN_BYTES, object_bytes):
        return (_UNKNOWN_PIECE if known_bytes == UNKNOWN_BYTES else b""), known_bytes
    return b"%d" % known_bytes, known_bytes


def _range(first_text: bytes, last_text: bytes, known_bytes: int, object_bytes: int) -> tuple[bytes, int]:
    """Return the piece and its size [bytes] for a range that may lack its first or last byte."""
    is_known = object_bytes != UNKNOWN_BYTES
    if not first_text:  # a suffix range
        length = int(last_text)
        if not is_known:
            return b"-%d" % length, _first_known(known_bytes, length)
        first, last = max(0, object_bytes - length), object_bytes - 1
    else:
        first = int(first_text)
        if not last_text and not is_known:
            return (b"%d-" % first if first else b""), known_bytes
        last = min(int(last_text or object_bytes), object_bytes - 1) if is_known else int(last_text)
    if is_known and first == 0 and last >= object_bytes - 1:
        return b"", object_bytes
    length = max(0, last - first + 1)
    is_short = not is_known and 0 <= known_bytes < length  # the object ends early, or the client disconnected
    return b"%d-%d" % (first, last), known_bytes if is_short else length


def join_key(name: bytes, piece: bytes = b"") -> bytes:
    """Return the key for an object or a piece, unique for each (name, piece)."""
    if piece:
        return name + _SEPARATOR + piece
    return name + _SEPARATOR if _SEPARATOR in name else name


def split_key(key: bytes) -> tuple[bytes, bytes]:
    """Split a key into object name and piece, the inverse of `join_key`. The piece is empty for a whole object."""
    name, _, piece = key.rpartition(_SEPARATOR)
    return (name, piece) if _SEPARATOR in key else (key, b"")


def is_length_only(piece: bytes) -> bool:
    """Return whether a piece is named only by its length."""
    return piece.isdigit() or piece == _UNKNOWN_PIECE


def min_object_bytes(piece: bytes) -> int:
    """Return the minimum size of a piece's object, which is the end of the range [bytes]."""
    match = _RANGE.fullmatch(piece)
    return int(match[2]) + 1 if match and match[1] and match[2] else 0


def piece_text(piece: bytes) -> str:
    """Return the suffix that describes a piece after its object's name."""
    if not piece:
        return ""
    if piece == _UNKNOWN_PIECE:
        return " [unknown range]"
    text = piece.decode("ascii", "backslashreplace")
    if is_length_only(piece):
        return f" [{text} bytes]"
    return f" [part {text[1:]}]" if text.startswith("p") else f" [bytes {text}]"


def range_start(text: str) -> int:
    """Return the offset of the piece that `piece_text` describes, or -1 if it is unknown [bytes]."""
    match = _TEXT.fullmatch(text)
    return int(match[1]) if match else (0 if not text else -1)
