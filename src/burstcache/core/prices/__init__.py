"""AWS prices as dated sheets. Every row names the source of its figure.

The data is in Python modules, because `core` reads no files. Prices are exact decimals: a bill adds fractions and is
rounded only once, for printing. Free tiers are never deducted.
"""

from __future__ import annotations

from burstcache.core.errors import InvalidSettingError
from burstcache.core.prices import thesis_2022, today_eu_central_1, today_us_east_1
from burstcache.core.prices.sheet import BYTES_PER_GB, UNCHECKED, PriceRow, PriceSheet

THESIS = thesis_2022.SHEET.name
SHEETS = {sheet.name: sheet for sheet in (thesis_2022.SHEET, today_us_east_1.SHEET, today_eu_central_1.SHEET)}

__all__ = ["BYTES_PER_GB", "SHEETS", "THESIS", "UNCHECKED", "PriceRow", "PriceSheet", "price_sheet"]


def price_sheet(name: str) -> PriceSheet:
    """Return the price sheet with that name.

    Raises:
        InvalidSettingError: There is no such sheet.
    """
    if name not in SHEETS:
        raise InvalidSettingError(f"price sheet {name!r}: expected one of {', '.join(SHEETS)}")
    return SHEETS[name]
