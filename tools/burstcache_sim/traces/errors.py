"""Errors in a log, with their file and line."""

from __future__ import annotations

from burstcache.core.errors import InvalidSettingError

_SHOWN_CHARACTERS, _EXPECTED_CHARACTERS = 80, 600


class BadLogError(InvalidSettingError):
    """A log cannot be read. The message has the file, the line, and the actual and the expected text."""


class BadRowError(ValueError):
    """A line does not match its format. The message has the expected text, to which the caller adds file and line."""


def bad_line(name: str, number: int, line: bytes, expected: str) -> BadLogError:
    """Return the error for a line, with its number (from 1) and a short printable excerpt."""
    text = line.rstrip(b"\r\n").decode("utf-8", "backslashreplace")
    shown = text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "..."
    if len(expected) > _EXPECTED_CHARACTERS:
        expected = expected[:_EXPECTED_CHARACTERS] + "..."
    expected = "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in expected)
    return BadLogError(f"{name} line {number}: {shown!a}: expected {expected}")
