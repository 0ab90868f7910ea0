"""A price sheet: one region on one day."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache

from burstcache.core.errors import PriceMissingError

UNCHECKED = "from memory, not checked"  # in a source: unverified; bills that use the figure print a warning
BYTES_PER_GB = 1024**3  # as AWS counts


@cache  # a search makes thousands of bills from the same prices
def _exact(usd: str) -> Fraction:
    dividend, _, divisor = usd.partition("/")
    return Fraction(dividend) / Fraction(divisor or 1)


@dataclass(frozen=True, slots=True)
class PriceRow:
    """One price. `usd` is a decimal, or an exact quotient such as `0.0134/3600`; it buys one `unit`."""

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
    not_sold: tuple[str, ...] = ()  # what the region lacks: nothing has a price for it there
    _by_item: dict[str, PriceRow] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_by_item", {row.item: row for row in self.rows})

    def row(self, item: str) -> PriceRow:
        """Return the price of an item.

        Raises:
            PriceMissingError: The sheet has no price for it.
        """
        if item not in self._by_item:
            raise PriceMissingError(self._complaint(item))
        return self._by_item[item]

    def usd(self, item: str) -> Fraction:
        """Return the price of one unit of an item [USD]; raise `PriceMissingError` if the sheet has none."""
        return self.row(item).usd_exact

    def kinds(self, prefix: str) -> tuple[str, ...]:
        """Return the rest of the items' names that start with `prefix`, such as the instance types of `ec2:`."""
        return tuple(row.item.removeprefix(prefix) for row in self.rows if row.item.startswith(prefix))

    def _complaint(self, item: str) -> str:
        kind, colon, _ = item.partition(":")
        known = self.kinds(kind + colon) if colon else ()
        remedy = f"it has {', '.join(known)}" if known else "expected a sheet that has, or --only-cache"
        return f"price sheet {self.name} has no price for {item}; {remedy}"
