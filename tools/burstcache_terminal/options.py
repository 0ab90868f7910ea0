"""Types of options: each turns the text of one option into a value, or names the text and what is accepted.

`Parser` reports what is wrong as one line, `--seeds '0': expected a whole number of at least 1`.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import inf, isfinite
from typing import Any, Generic, NoReturn, TypeVar

from burstcache.core.errors import InvalidSettingError

_T = TypeVar("_T", int, float, Fraction)


class UsageError(InvalidSettingError):
    """A call is wrong: an option is missing, unknown, or has a value that is not accepted."""


class Parser(argparse.ArgumentParser):
    """An `ArgumentParser` that raises `UsageError` with one line instead of printing its usage and exiting."""

    def __init__(self, **arguments: Any) -> None:
        super().__init__(**arguments, exit_on_error=False)

    def error(self, message: str) -> NoReturn:
        """Raise a `UsageError` that says where the accepted options are listed."""
        raise UsageError(f"{self.prog}: {message} (see {self.prog} --help)")

    def parse(self, argv: Sequence[str]) -> argparse.Namespace:
        """Return the options of a call.

        Raises:
            UsageError: The call is wrong.
        """
        try:
            return self.parse_args(argv)
        except argparse.ArgumentError as error:
            self.error(f"{error.argument_name} {error.message}")


@dataclass(frozen=True, slots=True)
class _Number(Generic[_T]):
    """A range of numbers."""

    read: Callable[[str], _T]
    what: str
    least: float
    above: float
    most: float
    example: str

    def __call__(self, text: str) -> _T:
        try:
            value = self.read(text)
        except ValueError:
            self._refuse(text)
        if not (self.least <= value <= self.most and value > self.above):
            self._refuse(text)
        return value

    def _refuse(self, text: str) -> NoReturn:
        if self.above > -inf:
            range_ = f" above {self.above:.16g}" + (f" and at most {self.most:.16g}" if self.most < inf else "")
        elif self.most < inf:
            range_ = f" from {self.least:.16g} to {self.most:.16g}"
        else:
            range_ = f" of at least {self.least:.16g}" if self.least > -inf else ""
        example = f", such as {self.example}" if self.example else ""
        raise argparse.ArgumentTypeError(f"{text!r}: expected {self.what}{range_}{example}")


def whole(*, least: float = -inf, most: float = inf, what: str = "a whole number") -> Callable[[str], int]:
    """Return a type that accepts whole numbers, by default all of them."""
    return _Number(_whole, what, least, -inf, most, "")


def number(
    *, least: float = -inf, above: float = -inf, most: float = inf, what: str = "a number", example: str = ""
) -> Callable[[str], float]:
    """Return a type that accepts finite numbers in a range.

    Args:
        least: The smallest one that is accepted.
        above: A number that all accepted ones are above.
        most: The largest one that is accepted.
        what: What the number is, for the message, with its unit: "a number of seconds".
        example: One that is accepted, for the message.
    """
    return _Number(_finite, what, least, above, most, example)


def decimal(
    *, least: float = -inf, above: float = -inf, most: float = inf, what: str = "a number", example: str = ""
) -> Callable[[str], Fraction]:
    """Return a type that accepts the numbers that `number` accepts, and keeps them exactly."""
    return _Number(_exact, what, least, above, most, example)


def choice(names: Iterable[str]) -> Callable[[str], str]:
    """Return a type that accepts one of some names."""
    accepted = tuple(names)

    def read(text: str) -> str:
        if text not in accepted:
            raise argparse.ArgumentTypeError(f"{text!r}: expected one of {', '.join(accepted)}")
        return text

    return read


def _whole(text: str) -> int:
    if not text.isascii():
        raise ValueError
    return int(text)


def _finite(text: str) -> float:
    if not isfinite(value := float(text)):
        raise ValueError
    return value


def _exact(text: str) -> Fraction:
    value = _finite(text)  # before the fraction, whose digits an exponent of a million would fill the memory with
    return Fraction(text) if value else Fraction(0)
