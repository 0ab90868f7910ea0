"""A price sheet: the prices of one region on one day."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cache

from burstcache.core.errors import PriceMissingError

UNCHECKED = "from memory, not checked"  # marks a source as unverified; bills with such a figure print a warning
BYTES_PER_GB = 1024**3  # AWS's definition


@cache  # a search computes thousands of bills from the same prices
def _exact(usd: str) -> Fraction:
    dividend, _, divisor = usd.partition("/")
    return Fraction(dividend) / Fraction(divisor or 1)


@dataclass(frozen=True, slots=True)
class PriceRow:
    """The price of one `unit`. `usd` is a decimal, or an exact quotient such as `0.0134/3600`."""

    item: str
    usd: str
    unit: str
    source: str

    @property
    def usd_exact(self) -> Fraction:
        """The price of one unit, without rounding [USD]."""
        return _exact(self.usd)


@dataclass(frozen=True, slots=True)
class PriceSheet:
    """The prices of one region. `architecture` is the default processor of its Lambda functions."""

    name: str
    region: str
    looked_up: str  # ISO date
    architecture: str
    rows: tuple[PriceRow, ...]
    not_sold: tuple[str, ...] = ()  # services that the region lacks
    _by_item: dict[str, PriceRow] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_by_item", {row.item: row for row in self.rows})

    def row(self, item: str) -> PriceRow:
        """Return the row of an item.

        Raises:
            PriceMissingError: The sheet has no price for the item.
        """
        if item not in self._by_item:
            raise PriceMissingError(self._complaint(item))
        return self._by_item[item]

    def usd(self, item: str) -> Fraction:
        """Return the price of one unit of an item [USD], or raise `PriceMissingError`."""
        return self.row(item).usd_exact

    def has(self, item: str) -> bool:
        """Return whether the sheet has a price for an item."""
        return item in self._by_item

    def with_row(self, row: PriceRow) -> PriceSheet:
        """Return the sheet with one more row."""
        return replace(self, rows=(*self.rows, row))

    def kinds(self, prefix: str) -> tuple[str, ...]:
        """Return the items that start with `prefix`, stripped of the prefix, such as the instance types of `ec2:`."""
        return tuple(row.item.removeprefix(prefix) for row in self.rows if row.item.startswith(prefix))

    def _complaint(self, item: str) -> str:
        kind, colon, _ = item.partition(":")
        kinds = self.kinds(kind + colon) if colon else ()
        remedy = f"it has {', '.join(kinds)}" if kinds else "expected a sheet that has, or --only-cache"
        return f"price sheet {self.name} has no price for {item}; {remedy}"
