"""What else one could buy for the same trace, each with its own bill: the registry of all that is offered.

Each answers what it can hold: LRU in its own memory, at its own share of hits. What is asked first and filled on a
miss is a cache like any other, so an object is fetched from S3 again after it has been dropped.

Source:
    Thesis, section 5.1.4 "Comparison Systems"; InfiniCache for its own model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from burstcache.core.errors import InvalidSettingError, PriceMissingError
from burstcache.core.prices import SHEETS, PriceSheet
from burstcache_sim.bill import edge, express, nodes
from burstcache_sim.bill.market import Market, Offer
from burstcache_sim.bill.schedule import scheduled
from burstcache_sim.bill.setup import Setup
from burstcache_sim.bill.together import before
from burstcache_sim.progress import progress

_SERVERLESS_SIZES = tuple(f"{gb}GB" for gb in nodes.SERVERLESS_SIZES_GB)
_KINDS: dict[str, Callable[[Market, str], Offer]] = {
    "s3-only": edge.s3_only,
    "s3-express": express.by_price,
    "s3-express-all": express.at_first,
    "reader-memory": edge.reader_memory,
    "reader-memory-confirmed": edge.confirmed_memory,
    "range-memory": edge.range_memory,
    "ec2": nodes.always_on,
    "ec2-scheduled": scheduled,
    "fargate": nodes.fargate("fargate", "Valkey on Fargate, LRU in its memory"),
    "fargate-spot": nodes.fargate("fargate-spot", "Valkey on Fargate Spot; AWS may end it at any time"),
    "elasticache-redis": nodes.elasticache("redis"),
    "elasticache-valkey": nodes.elasticache("valkey"),
    "serverless-valkey": nodes.serverless("valkey"),
    "serverless-redis": nodes.serverless("redis"),
    "efs": edge.efs,
    "cloudfront": edge.cloudfront,
    "perfect-automation": edge.perfect_automation,
    "lambda-always": edge.lambda_always,
    "infinicache": edge.infinicache,
}
# Below a reader's own memory; what is sold in another form costs more there, too.
_BELOW_MEMORY = ("s3-express", "s3-express-all", "ec2", "ec2-scheduled", "fargate-spot", "efs")
_KINDS |= {f"reader-memory+{kind}": before(_KINDS[kind]) for kind in _BELOW_MEMORY}
# Several of them may share the keys.
_SEVERAL: dict[str, Callable[[Market], list[nodes.Nodes]]] = {
    "ec2": nodes.ec2_worth_trying,
    "ec2-scheduled": nodes.ec2_worth_trying,
    "fargate": nodes.fargate_worth_trying("fargate"),
    "fargate-spot": nodes.fargate_worth_trying("fargate-spot"),
    "elasticache-redis": nodes.elasticache_worth_trying("redis"),
    "elasticache-valkey": nodes.elasticache_worth_trying("valkey"),
}
_SEVERAL |= {f"reader-memory+{kind}": _SEVERAL[kind] for kind in _BELOW_MEMORY if kind in _SEVERAL}
_BY_TYPE = {
    "ec2": "ec2:",
    "reader-memory+ec2": "ec2:",
    "reader-memory+ec2-scheduled": "ec2:",
    "ec2-scheduled": "ec2:",
    "elasticache-redis": "elasticache-redis:",
    "elasticache-valkey": "elasticache-valkey:",
}
_BY_SIZE = {
    "fargate": tuple(nodes.FARGATE_SIZES),
    "fargate-spot": tuple(nodes.FARGATE_SIZES),
    "reader-memory+fargate-spot": tuple(nodes.FARGATE_SIZES),
    "reader-memory": edge.READER_SIZES,
    "reader-memory-confirmed": edge.READER_SIZES,
    "range-memory": edge.READER_SIZES,
    "serverless-valkey": ("", *_SERVERLESS_SIZES),
    "serverless-redis": ("", *_SERVERLESS_SIZES),
}
_TODAYS = "today-"
_BY_ITEM = {
    "s3-express-get": "s3-express",
    "efs-storage": "efs",
    "cloudfront-transfer": "cloudfront",
    "serverless-memory:valkey": "serverless-valkey",
    "serverless-memory:redis": "serverless-redis",
    "fargate-vcpu": "fargate",
    "fargate-spot-vcpu": "fargate-spot",
}
# What the thesis compares with knows neither regions' other services nor volumes.
_OF_THE_THESIS = ("s3-only", "ec2", "elasticache-redis", "perfect-automation", "lambda-always", "infinicache")


def offers(market: Market, *, names: tuple[str, ...] = ()) -> list[Offer]:
    """Return what one could buy instead, cheapest first.

    Args:
        market: What the trace asks for, and prices. This system's node, always on, is one of the offers.
        names: Names from `offer_names`, of nodes also with their number (`ec2:3xt4g.nano`); if empty, all that the
            sheet has prices for and that differ.

    Raises:
        InvalidSettingError: There is no offer of that name.
        PriceMissingError: A named offer has no price in the sheet.
    """
    known = offer_names(market.prices, market.setup)
    if strange := [name for name in names if name.partition(":")[0] not in _KINDS]:
        raise InvalidSettingError(f"competitor {strange[0]!r}: expected one of {', '.join(known)}")
    found = []
    for name in names or progress(_worth_trying(market, known), text="rivals"):
        try:
            found.append(_make(market, name))
        except PriceMissingError:
            if names:
                raise
    return sorted(found, key=lambda offer: offer.bill.usd_exact)


def offer_names(prices: PriceSheet, setup: Setup) -> list[str]:
    """Return the names of all offers: of instances, one for each type that the sheet has a price for, a single one."""
    names: list[str] = []
    for kind in _KINDS:
        if kind == "perfect-automation":
            names.append(f"{kind}:{setup.instance_type}")
        elif kind in _BY_TYPE:
            names += [f"{kind}:{type_}" for type_ in prices.kinds(_BY_TYPE[kind])]
        else:
            names += [f"{kind}:{size}" if size else kind for size in _BY_SIZE.get(kind, ("",))]
    return names


def unpriced(prices: PriceSheet) -> tuple[str, ...]:
    """Return the competitors that another sheet of today has prices for and this one has not, by name."""
    others = [sheet for sheet in SHEETS.values() if sheet.name.startswith(_TODAYS)]
    missing = {row.item for sheet in others for row in sheet.rows} - {row.item for row in prices.rows}
    names = (name for item in missing if (name := _priced_by(item)))
    return tuple(sorted({name for name in names if name not in prices.not_sold}))


def _priced_by(item: str) -> str:
    """Return the competitor that an item of a price sheet is for; empty if it is for something else."""
    kind, _, of = item.partition(":")
    if item in _BY_ITEM or kind in _BY_ITEM:
        return _BY_ITEM.get(item) or _BY_ITEM[kind]
    return item if f"{kind}:" in _BY_TYPE.values() and of else ""


def _make(market: Market, name: str) -> Offer:
    kind, _, of = name.partition(":")
    default = market.setup.instance_type if kind in (*_BY_TYPE, "perfect-automation") else _default_size(kind)
    return _KINDS[kind](market, of or default)


def _default_size(kind: str) -> str:
    return _BY_SIZE.get(kind, ("",))[0]


def _worth_trying(market: Market, names: Iterable[str]) -> list[str]:
    """Return the names without sizes that are larger than one that holds everything already, and several nodes' names.

    Several are tried where they are the cheapest of their size.
    """
    stored_bytes = market.locality.working_bytes
    kept, holding_all = [], set()
    is_enough = market.own_memory_mb * 1024**2 >= stored_bytes
    for name in names:
        kind, _, size = name.partition(":")
        if kind.startswith("reader-memory+") and (is_enough or market.setup.readers != "aws"):
            continue
        if kind == "range-memory" and market.locality.whole_bytes is None:
            continue
        if kind in holding_all or (market.only_cache and kind not in _OF_THE_THESIS):
            continue
        if kind in _BY_SIZE and size and _usable_bytes(kind, size) >= stored_bytes:
            if kind.startswith("serverless"):
                continue  # the same as without a maximum
            holding_all.add(kind)
        kept.append(name)
    several = [] if market.only_cache else [kind for kind in _SEVERAL if any(_kind(name) == kind for name in kept)]
    return kept + [
        f"{kind}:{pool.count}x{pool.type_}" for kind in several for pool in _SEVERAL[kind](market) if pool.count > 1
    ]


def _kind(name: str) -> str:
    return name.partition(":")[0]


def _usable_bytes(kind: str, size: str) -> float:
    bytes_ = float(size[:-2]) * (1024**3 if size.endswith("GB") else 1024**2)
    return bytes_ * float(nodes.MEMORY_SHARE) if "fargate" in kind else bytes_
