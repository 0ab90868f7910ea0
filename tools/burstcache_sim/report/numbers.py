"""Numbers as a person says them."""

from __future__ import annotations

_UNITS = (("days", 86_400, 2), ("h", 3_600, 1), ("min", 60, 2))  # from how many of them on a time is said so


def small_usd(value: float) -> str:
    """Return a small amount as a person reads it: per one, and per million."""
    return f"{value:.3g} USD ({value * 1e6:,.3g} per million)"


def amount(value: float) -> str:
    """Return a number without needless digits."""
    return f"{value:,.0f}" if value >= 1_000 else f"{value:.4g}"


def counted(number: int, what: str) -> str:
    """Return a number of things."""
    return f"{number:,} {what}{'s' * (number != 1)}"


def duration(seconds: float) -> str:
    """Return a time."""
    for unit, size_s, least in _UNITS:
        if seconds >= least * size_s:
            return f"{seconds / size_s:.3g} {unit}"
    return f"{seconds:.3g} s"
