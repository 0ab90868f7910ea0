"""Each type of option returns what it accepts; it refuses the rest by naming option, value and what is accepted."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import pytest

from burstcache_terminal.options import Parser, UsageError, choice, decimal, number, pairs, template_parameters, whole


def parsed(type_: Callable[[str], object], text: str) -> object:
    parser = Parser(prog="burstcache try")
    parser.add_argument("--value", type=type_)
    return parser.parse([f"--value={text}"]).value


@pytest.mark.parametrize(
    ("type_", "text", "value"),
    [
        (whole(), "-3", -3),
        (whole(least=1, most=9), "9", 9),
        (number(least=0), "1e3", 1000.0),
        (number(least=0), "0", 0.0),
        (decimal(above=0), "0.1", Fraction(1, 10)),
        (decimal(least=0), "1e-999999999", Fraction(0)),
        (choice(("a", "b")), "b", "b"),
    ],
)
def test_value_that_is_accepted_is_returned(type_: Callable[[str], object], text: str, value: object) -> None:
    found = parsed(type_, text)

    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("type_", "text", "expected"),
    [
        (whole(), "1.5", "a whole number"),
        (whole(least=1), "0", "a whole number of at least 1"),
        (
            whole(least=1, most=604_800, noun="a whole number of seconds"),
            "٣",
            "a whole number of seconds from 1 to 604800",
        ),
        (number(least=0, most=1), "1.01", "a number from 0 to 1"),
        (number(above=0), "0", "a number above 0"),
        (number(above=0, most=876_000), "1e6", "a number above 0 and at most 876000"),
        (number(least=0), "nan", "a number of at least 0"),
        (number(least=0), "inf", "a number of at least 0"),
        (decimal(least=0), "1/2", "a number of at least 0"),
        (decimal(least=0), "1e999999999", "a number of at least 0"),
        (decimal(above=0, noun="an amount", example="1e-4"), "x", "an amount above 0, such as 1e-4"),
        (choice(("a", "b")), "c", "one of a, b"),
    ],
)
def test_value_that_is_not_accepted_is_named_with_what_is(
    type_: Callable[[str], object], text: str, expected: str
) -> None:
    with pytest.raises(UsageError) as refused:
        parsed(type_, text)

    assert str(refused.value) == (f"burstcache try: --value {text!r}: expected {expected} (see burstcache try --help)")


def test_option_that_is_missing_is_named() -> None:
    parser = Parser(prog="burstcache try")
    parser.add_argument("--value", required=True)

    with pytest.raises(UsageError, match=r"^burstcache try: the following arguments are required: --value \(see"):
        parser.parse([])


def test_pairs_are_collected_in_order_and_values_may_contain_an_equals_sign() -> None:
    parser = Parser(prog="burstcache try")
    template_parameters(parser)

    found = parser.parse(["--parameter", "ResourceTags=a=b", "--parameter", "ZoneA="]).parameter

    assert found == [("ResourceTags", "a=b"), ("ZoneA", "")]


@pytest.mark.parametrize("text", ["owner", "=Ada", ""])
def test_a_text_that_is_no_pair_is_refused_with_the_form_of_its_option(text: str) -> None:
    parser = Parser(prog="burstcache try")
    pairs(parser, "--tag", "KEY=VALUE", "tag of the stack")

    with pytest.raises(UsageError, match=f"--tag '{text}': expected KEY=VALUE"):
        parser.parse(["--tag", text])
