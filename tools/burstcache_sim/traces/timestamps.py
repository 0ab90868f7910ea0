"""Timestamps in logs, converted to exact microseconds without floating point."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from decimal import MAX_EMAX, MIN_EMIN, ROUND_HALF_EVEN, Context, Decimal
from functools import lru_cache
from re import compile as regex

from burstcache.core.parameters import US_PER_S
from burstcache_sim.traces.errors import BadRowError
from burstcache_sim.traces.log_format import text

MAX_S = 10**11  # the year 5138
_EPOCH_DAY = date(1970, 1, 1).toordinal()
_MONTHS = {
    name: number
    for number, name in enumerate((b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct",
                                   b"Nov", b"Dec"), start=1)
}  # fmt: skip
_NUMBER = regex(rb"[+-]?(\d++(?:\.\d*+)?|\.\d++)([eE][+-]?\d{1,9})?")
_BRACKETED = regex(
    rb"\[?(\d\d/[A-Z][a-z]{2}/\d{4})[: ]([01]\d|2[0-3]):([0-5]\d):([0-6]\d)(?:[.:,](\d{1,9}))?"
    rb"(?: ([+-])(\d\d):?([0-5]\d))?\]?"
)
_ISO = regex(
    rb"\[?(\d{4}-\d\d-\d\d|\d{4}/\d\d/\d\d)[T ]([01]\d|2[0-3]):([0-5]\d):([0-6]\d)(?:[.,](\d{1,9}))?"
    rb"(?:Z| ?UTC|([+-])(\d\d):?([0-5]\d)?)?\]?"
)
# Units of numeric times, in nanoseconds.
UNITS_NS = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}
_EARLIEST_S, _LATEST_S = 631_152_000, 4_102_444_800  # 1990 and 2100; numbers in between count as dates


def seconds_us(digits: bytes) -> int:
    """Convert a decimal number of seconds to microseconds, rounding half to even.

    Raises:
        BadRowError: The text is not a finite decimal number, is negative, or is beyond the year 5138 (probably a time
        in milliseconds).
    """
    whole, point, fraction = digits.partition(b".")
    if whole.isdigit() and len(whole) <= 11 and (fraction.isdigit() or not point) and len(fraction) <= 6:
        return int(whole) * US_PER_S + int(fraction.ljust(6, b"0"))
    if not _NUMBER.fullmatch(digits):
        raise BadRowError(f"a number of seconds, not {text(digits)}")
    value = Decimal(digits.decode())
    if value < 0:
        raise BadRowError(f"seconds of at least 0, not {text(digits)}")
    if value > MAX_S:
        raise BadRowError(f"at most {MAX_S} seconds, and not milliseconds: {text(digits)}")
    exact = Context(prec=len(digits) + 32, Emin=MIN_EMIN, Emax=MAX_EMAX)  # only the last step rounds
    return int(value.scaleb(6, exact).to_integral_value(ROUND_HALF_EVEN, exact))


def unit_of(digits: bytes) -> str:
    """Return the unit (a key of `UNITS_NS`) in which a number is a date between 1990 and 2100, or ""."""
    whole = digits.partition(b".")[0]
    if not whole.isdigit() or len(whole) > 19:
        return ""
    number = int(whole)
    spans = {unit: 10**9 // ns for unit, ns in UNITS_NS.items()}
    return next((unit for unit, per_s in spans.items() if _EARLIEST_S <= number // per_s < _LATEST_S), "")


def reader_of_unit(unit: str) -> Callable[[bytes], int]:
    """Return a function that converts numbers in this unit to microseconds, truncated except for seconds."""
    if unit == "s":
        return seconds_us
    factor_ns = UNITS_NS[unit]

    def time_us(digits: bytes) -> int:
        if digits.isdigit() and len(digits) <= 20:
            us = int(digits) * factor_ns // 1000
        elif _NUMBER.fullmatch(digits) and len(digits) <= 40:
            number = Decimal(digits.decode())
            if not 0 <= number <= MAX_S * (10**9 // factor_ns):
                raise BadRowError(f"a number of at most {MAX_S} seconds in {unit}, not {text(digits)}")
            us = int(number * factor_ns / 1000)
        else:
            raise BadRowError(f"a time in {unit}, a number, not {text(digits)}")
        if us > MAX_S * US_PER_S:
            raise BadRowError(f"at most {MAX_S} seconds, in {unit}: {text(digits)}")
        return us

    return time_us


@lru_cache(maxsize=1024)
def bracketed_us(stamp: bytes) -> int:
    """Convert a time like `06/Feb/2019:00:00:38 +0000` to microseconds since 1970.

    A space may precede the hour, and a fraction may follow the second. A time without a zone is UTC. ISO 8601 is also
    accepted.

    Raises:
        BadRowError: The text has another form, or there is no such day.
    """
    if not (match := _BRACKETED.fullmatch(stamp)):
        if is_iso(stamp):
            return iso_us(stamp)
        raise BadRowError(f"a time like 06/Feb/2019:00:00:38 +0000, not {text(stamp)}")
    return _instant_us(_bracketed_day_s(match[1]), *match.groups()[1:])


def _instant_us(
    day_s: int, hours: bytes, minutes: bytes, seconds: bytes, fraction: bytes, sign: bytes, *zone: bytes
) -> int:
    clock_s = int(hours) * 3600 + int(minutes) * 60 + int(seconds)
    if sign:
        zone_s = int(zone[0]) * 3600 + int(zone[1] or 0) * 60
        clock_s -= zone_s if sign == b"+" else -zone_s
    return (day_s + clock_s) * US_PER_S + int((fraction or b"0").ljust(6, b"0")[:6])


def iso_us(stamp: bytes) -> int:
    """Convert a time like `2018-11-30T22:23:00.186641Z` to microseconds since 1970.

    A space may replace the T, and `/` may replace `-`. The zone may be `+01:00`, `+0100` or `+01`. A time without a
    zone is UTC.

    Raises:
        BadRowError: The text has another form, or there is no such day.
    """
    if not (match := _ISO.fullmatch(stamp)):
        raise BadRowError(f"a time like 2018-11-30T22:23:00.186641Z, not {text(stamp)}")
    return _instant_us(_iso_day_s(match[1]), *match.groups()[1:])


def is_number(digits: bytes) -> bool:
    """Return whether the text is a decimal number."""
    return _NUMBER.fullmatch(digits) is not None


def is_iso(stamp: bytes) -> bool:
    """Return whether the text has the form of an ISO 8601 time."""
    return _ISO.fullmatch(stamp) is not None


@lru_cache(maxsize=1024)
def any_time_us(stamp: bytes) -> int:
    """Convert an ISO 8601 time, a time like `06/Feb/2019:00:00:38 +0000` or a number since 1970 to microseconds.

    A number's unit is the one (s, ms, us or ns) that gives a date between 1990 and 2100, or else the second.

    Raises:
        BadRowError: The text is none of these.
    """
    if is_iso(stamp):
        return iso_us(stamp)
    if is_number(stamp):
        return reader_of_unit(unit_of(stamp) or "s")(stamp)
    if _BRACKETED.fullmatch(stamp):
        return bracketed_us(stamp)
    raise BadRowError(f"a time of ISO 8601, like 06/Feb/2019:00:00:38 +0000, or a number, not {text(stamp)}")


@lru_cache(maxsize=1024)
def _bracketed_day_s(day: bytes) -> int:
    number, month, year = day.split(b"/")
    return _day_s(day, int(year), _MONTHS.get(month, 0), int(number))


@lru_cache(maxsize=1024)
def _iso_day_s(day: bytes) -> int:
    year, month, number = map(int, day.replace(b"/", b"-").split(b"-"))
    return _day_s(day, year, month, number)


def _day_s(written: bytes, year: int, month: int, number: int) -> int:
    try:
        return (date(year, month, number).toordinal() - _EPOCH_DAY) * 86_400
    except ValueError as error:
        raise BadRowError(f"a day of the calendar, not {text(written)}") from error
