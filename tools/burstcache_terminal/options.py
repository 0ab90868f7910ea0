"""Types of command-line options, and options that several commands share.

A type parses an option's text, or raises an error that names valid values.

`Parser` reports errors in one line: `--seeds '0': expected a whole number of at least 1`.
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
    """A command was called with missing, unknown or invalid options."""


class Parser(argparse.ArgumentParser):
    """An `ArgumentParser` that raises a one-line `UsageError` instead of printing the usage and exiting."""

    def __init__(self, **arguments: Any) -> None:
        super().__init__(**arguments, exit_on_error=False)

    def error(self, message: str) -> NoReturn:
        """Raise a `UsageError` that refers to `--help`."""
        raise UsageError(f"{self.prog}: {message} (see {self.prog} --help)")

    def parse(self, argv: Sequence[str]) -> argparse.Namespace:
        """Parse command-line arguments.

        Raises:
            UsageError: An argument is missing, unknown or invalid.
        """
        try:
            return self.parse_args(argv)
        except argparse.ArgumentError as error:
            self.error(f"{error.argument_name} {error.message}")


@dataclass(frozen=True, slots=True)
class _Number(Generic[_T]):
    """An option type for numbers in a range."""

    parse: Callable[[str], _T]
    noun: str
    least: float
    above: float
    most: float
    example: str

    def __call__(self, text: str) -> _T:
        try:
            value = self.parse(text)
        except ValueError:
            self._reject(text)
        if not (self.least <= value <= self.most and value > self.above):
            self._reject(text)
        return value

    def _reject(self, text: str) -> NoReturn:
        if self.above > -inf:
            range_ = f" above {self.above:.16g}" + (f" and at most {self.most:.16g}" if self.most < inf else "")
        elif self.most < inf:
            range_ = f" from {self.least:.16g} to {self.most:.16g}"
        else:
            range_ = f" of at least {self.least:.16g}" if self.least > -inf else ""
        example = f", such as {self.example}" if self.example else ""
        raise argparse.ArgumentTypeError(f"{text!r}: expected {self.noun}{range_}{example}")


def whole(*, least: float = -inf, most: float = inf, noun: str = "a whole number") -> Callable[[str], int]:
    """Return an option type for whole numbers in a range (default: all)."""
    return _Number(_whole, noun, least, -inf, most, "")


def number(
    *, least: float = -inf, above: float = -inf, most: float = inf, noun: str = "a number", example: str = ""
) -> Callable[[str], float]:
    """Return an option type for finite numbers in a range.

    Args:
        least: Smallest valid number.
        above: Exclusive lower bound.
        most: Largest valid number.
        noun: Noun for the error message, with the unit: "a number of seconds".
        example: Valid number for the error message.
    """
    return _Number(_finite, noun, least, above, most, example)


def decimal(
    *, least: float = -inf, above: float = -inf, most: float = inf, noun: str = "a number", example: str = ""
) -> Callable[[str], Fraction]:
    """Return an option type for the numbers that `number` accepts, parsed as exact fractions."""
    return _Number(_exact, noun, least, above, most, example)


def choice(names: Iterable[str]) -> Callable[[str], str]:
    """Return an option type that accepts any of `names`."""
    accepted = tuple(names)

    def parse(text: str) -> str:
        if text not in accepted:
            raise argparse.ArgumentTypeError(f"{text!r}: expected one of {', '.join(accepted)}")
        return text

    return parse


def template_parameters(parser: argparse.ArgumentParser) -> None:
    """Add `--parameter`."""
    pairs(parser, "--parameter", "NAME=VALUE", "template parameter")


def pairs(parser: argparse.ArgumentParser, option: str, form: str, meaning: str) -> None:
    """Add a repeatable option, such as `--tag KEY=VALUE`, that collects pairs of texts."""

    def parse(text: str) -> tuple[str, str]:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise argparse.ArgumentTypeError(f"{text!r}: expected {form}")
        return name, value

    parser.add_argument(option, type=parse, action="append", default=[], metavar=form, help=f"{meaning}; repeatable")


def _whole(text: str) -> int:
    if not text.isascii():
        raise ValueError
    return int(text)


def _finite(text: str) -> float:
    if not isfinite(value := float(text)):
        raise ValueError
    return value


def _exact(text: str) -> Fraction:
    value = _finite(text)  # first, because `Fraction("1e1000000")` would exhaust memory
    return Fraction(text) if value else Fraction(0)
