"""Competitors that are unpriced in the region's sheet. The advice lists such competitors because they might win."""

from __future__ import annotations

from typing import Any

from burstcache.core.prices import PriceSheet
from burstcache_sim.bill.competitors import unpriced

_SPOKEN = {"s3-express": "S3 Express One Zone"}


def unpriced_text(prices: PriceSheet) -> str:
    """Describe the unpriced competitors, if any."""
    by_kind: dict[str, list[str]] = {}
    for name in unpriced(prices):
        kind, _, type_ = name.partition(":")
        by_kind.setdefault(kind, []).append(type_)
    names = [f"{kind} ({', '.join(types)})" if any(types) else kind for kind, types in by_kind.items()]
    missing = f"Not compared, as no price for {prices.region} is known: {'; '.join(names)}." if names else ""
    absent = [f"{_SPOKEN.get(kind, kind)} does not exist in {prices.region}." for kind in prices.not_sold]
    return " ".join(filter(None, [missing, *absent]))


def unpriced_fields(prices: PriceSheet) -> dict[str, Any]:
    """Return the unpriced competitors for JSON."""
    return {"region": prices.region, "unpriced": list(unpriced(prices)), "not_sold": list(prices.not_sold)}
