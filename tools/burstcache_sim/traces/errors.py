"""Errors in a log, by file and line."""

from __future__ import annotations

from burstcache.core.errors import InvalidSettingError

_SHOWN_CHARACTERS, _EXPECTED_CHARACTERS = 80, 600


class BadLogError(InvalidSettingError):
    """A log cannot be read; the message has file, line, what was found and what was expected."""


class BadRowError(ValueError):
    """A line is not of its format; the message says what was expected, and the reader adds file and line."""


def bad_line(name: str, number: int, line: bytes, expected: str) -> BadLogError:
    """Return the error that points at a line (counted from 1) of a file; what it shows of it is short and printable."""
    text = line.rstrip(b"\r\n").decode("utf-8", "backslashreplace")
    shown = text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "..."
    if len(expected) > _EXPECTED_CHARACTERS:
        expected = expected[:_EXPECTED_CHARACTERS] + "..."
    expected = "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in expected)
    return BadLogError(f"{name} line {number}: {shown!a}: expected {expected}")
