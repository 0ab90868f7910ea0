"""Ranges of objects: a response with status 206 carries a piece of an object, which is a cacheable thing of its own.

A piece is named by its range where the log shows it. Where it shows only how many bytes were sent, equal lengths of one
object count as the same range. Keys are stored as bytes: the object's name alone, or the name, a NUL and the range.

Source:
    RFC 9110, 14.1.2 "Byte Ranges" and 15.3.7 "206 Partial Content".
"""

from __future__ import annotations

from re import compile as regex
from typing import NamedTuple

UNKNOWN_BYTES = -1  # neither a 304 nor a part of an object shows the object's size
WHOLE_OBJECT_STATUSES = frozenset((b"200", b"203"))
_PART, _NOT_MODIFIED = b"206", b"304"
_HEADERS_BYTES = 16 * 1024  # some logs count headers, too, which seldom are larger
_SEPARATOR = b"\0"
_UNKNOWN_PIECE = b"?"
_RANGE = regex(rb"(?:bytes[= ])?(\d{0,18})-(\d{0,18})(?:/(?:\d+|\*))?")
_DIGIT = regex(rb"\d")
_SPACES = regex(rb"\s+")


class Answer(NamedTuple):
    """What a response carried: which piece of its object, and how much of it."""

    piece: bytes  # empty: the whole object; else first-last byte, `p` and the part's number, or the length alone
    size_bytes: int  # of the piece
    sent_bytes: int  # of the body; UNKNOWN_BYTES: as many as the size
    object_bytes: int  # UNKNOWN_BYTES: not shown; of a whole object, its size


def answer_of(
    status: bytes,
    *,
    body_bytes: int = UNKNOWN_BYTES,
    sent_bytes: int = UNKNOWN_BYTES,
    object_bytes: int = UNKNOWN_BYTES,
    range_: bytes = b"",
) -> Answer:
    """Return what a response carried.

    Args:
        status: The HTTP status.
        body_bytes: Length of the body as announced or, where the log has nothing else, as sent. If it is much longer
            than the range, it is the object's.
        sent_bytes: Bytes of the body that were sent, if the log shows them apart: fewer if the client left early.
        object_bytes: Size of the whole object.
        range_: `bytes=0-65535` as requested, `0-65535`, or `p3` for the third part; empty if the log shows none.
    """
    if status == _NOT_MODIFIED:
        return Answer(b"", object_bytes, 0, UNKNOWN_BYTES)
    if status == _PART and (most_bytes := _most_bytes(range_)) is not None:
        if object_bytes == UNKNOWN_BYTES and body_bytes > most_bytes + _HEADERS_BYTES:
            object_bytes = body_bytes  # no body is as long: the length is the object's
        body_bytes, sent_bytes = min(body_bytes, most_bytes), min(sent_bytes, most_bytes)
    shown = _first_known(body_bytes, sent_bytes or UNKNOWN_BYTES)  # nothing sent shows no size
    sent_bytes = _first_known(sent_bytes, body_bytes)
    if status == _PART:
        piece, size_bytes = _piece(range_, shown, object_bytes)
    else:
        piece = b""
        size_bytes = _first_known(object_bytes, shown if status in WHOLE_OBJECT_STATUSES else UNKNOWN_BYTES)
    return Answer(
        piece,
        size_bytes,
        UNKNOWN_BYTES if sent_bytes == size_bytes else sent_bytes,
        object_bytes if piece else UNKNOWN_BYTES,
    )


def names_range(text: bytes) -> bool:
    """Return whether a field for ranges has one, and no word for none."""
    return _DIGIT.search(text) is not None


def _most_bytes(range_: bytes) -> int | None:
    """Return how long the body of one range can be; None if the range does not say."""
    match = _RANGE.fullmatch(range_)
    if match is None or not match[2]:
        return None
    return max(0, int(match[2]) - int(match[1]) + 1) if match[1] else int(match[2])


def _first_known(*amounts: int) -> int:
    return next((amount for amount in amounts if amount != UNKNOWN_BYTES), UNKNOWN_BYTES)


def _piece(range_: bytes, shown_bytes: int, object_bytes: int) -> tuple[bytes, int]:
    """Return a piece's name, empty if it is the whole object, and its size [bytes]."""
    if (match := _RANGE.fullmatch(range_)) and any(match.groups()):
        return _range(match[1], match[2], shown_bytes, object_bytes)
    if names_range(range_):  # a part's number, or several ranges in one answer
        return _SPACES.sub(b"", range_.replace(_SEPARATOR, b"")).removeprefix(b"bytes="), shown_bytes
    if shown_bytes in (UNKNOWN_BYTES, object_bytes):
        return (_UNKNOWN_PIECE if shown_bytes == UNKNOWN_BYTES else b""), shown_bytes
    return b"%d" % shown_bytes, shown_bytes


def _range(first_text: bytes, last_text: bytes, shown_bytes: int, object_bytes: int) -> tuple[bytes, int]:
    """Return the piece and its size [bytes] of a range, whose end or beginning may be left out."""
    is_known = object_bytes != UNKNOWN_BYTES
    if not first_text:  # the last bytes, by their number
        length = int(last_text)
        if not is_known:
            return b"-%d" % length, _first_known(shown_bytes, length)
        first, last = max(0, object_bytes - length), object_bytes - 1
    else:
        first = int(first_text)
        if not last_text and not is_known:
            return (b"%d-" % first if first else b""), shown_bytes
        last = min(int(last_text or object_bytes), object_bytes - 1) if is_known else int(last_text)
    if is_known and first == 0 and last >= object_bytes - 1:
        return b"", object_bytes
    length = max(0, last - first + 1)
    is_short = not is_known and 0 <= shown_bytes < length  # the object ends within the range, or the client left
    return b"%d-%d" % (first, last), shown_bytes if is_short else length


def key_of(name: bytes, piece: bytes = b"") -> bytes:
    """Return the key of an object, or of a piece of it: different for each (name, piece)."""
    if piece:
        return name + _SEPARATOR + piece
    return name + _SEPARATOR if _SEPARATOR in name else name


def object_and_piece(key: bytes) -> tuple[bytes, bytes]:
    """Return the object and the piece, empty for the whole, that a key stands for: the inverse of `key_of`."""
    name, _, piece = key.rpartition(_SEPARATOR)
    return (name, piece) if _SEPARATOR in key else (key, b"")


def shows_no_offset(piece: bytes) -> bool:
    """Return whether a piece is known by its length alone."""
    return piece.isdigit() or piece == _UNKNOWN_PIECE


def reach_bytes(piece: bytes) -> int:
    """Return how large an object is at least that has a piece, by the piece's offset [bytes]."""
    match = _RANGE.fullmatch(piece)
    return int(match[2]) + 1 if match and match[1] and match[2] else 0


def piece_text(piece: bytes) -> str:
    """Return what stands behind the object's name in a piece's name."""
    if not piece:
        return ""
    if piece == _UNKNOWN_PIECE:
        return " [unknown range]"
    text = piece.decode("ascii", "backslashreplace")
    if shows_no_offset(piece):
        return f" [{text} bytes]"
    return f" [part {text[1:]}]" if text.startswith("p") else f" [bytes {text}]"
