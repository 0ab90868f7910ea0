"""Registry of competitors: alternatives to this system, each with a quote for the same trace.

Each competitor is an LRU cache with its own size and hit ratio. A miss fills the cache, and an evicted object is
fetched from S3 again.

Source:
    Thesis, section 5.1.4 "Comparison Systems". InfiniCache's cost model is from its paper.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from burstcache.core.errors import InvalidSettingError, PriceMissingError
from burstcache.core.node_kinds import FARGATE_SIZES, node_kind
from burstcache.core.prices import SHEETS, PriceSheet
from burstcache_sim.bill import edge, express, nodes
from burstcache_sim.bill.market import Market, Quote
from burstcache_sim.bill.reader_memory import behind_memory
from burstcache_sim.bill.schedule import scheduled
from burstcache_sim.bill.setup import Setup
from burstcache_sim.progress import progress

_SERVERLESS_SIZES = tuple(f"{gb}GB" for gb in nodes.SERVERLESS_SIZES_GB)
_KINDS: dict[str, Callable[[Market, str], Quote]] = {
    "s3-only": edge.s3_only,
    "s3-express": express.by_price,
    "s3-express-all": express.at_first,
    "reader-memory": edge.reader_memory,
    "reader-memory-confirmed": edge.confirmed_memory,
    "range-memory": edge.range_memory,
    "ec2": nodes.always_on,
    "ec2-scheduled": scheduled,
    "fargate": nodes.fargate("fargate", "Valkey on Fargate, LRU in its memory"),
    "fargate-spot": nodes.fargate("fargate-spot", "Valkey on Fargate Spot; AWS may stop it at any time"),
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
# Kinds that are also quoted behind readers' memory. Other variants of these products cost more there, too.
_BEHIND_MEMORY = ("s3-express", "s3-express-all", "ec2", "ec2-scheduled", "fargate-spot", "efs")
_KINDS |= {f"reader-memory+{kind}": behind_memory(_KINDS[kind]) for kind in _BEHIND_MEMORY}
# Kinds that can shard the keys across several nodes.
_GROUPS: dict[str, Callable[[Market], list[nodes.NodeGroup]]] = {
    "ec2": nodes.ec2_candidates,
    "ec2-scheduled": nodes.ec2_candidates,
    "fargate": nodes.fargate_candidates("fargate"),
    "fargate-spot": nodes.fargate_candidates("fargate-spot"),
    "elasticache-redis": nodes.elasticache_candidates("redis"),
    "elasticache-valkey": nodes.elasticache_candidates("valkey"),
}
_GROUPS |= {f"reader-memory+{kind}": _GROUPS[kind] for kind in _BEHIND_MEMORY if kind in _GROUPS}
_BY_TYPE = {
    "ec2": "ec2:",
    "reader-memory+ec2": "ec2:",
    "reader-memory+ec2-scheduled": "ec2:",
    "ec2-scheduled": "ec2:",
    "elasticache-redis": "elasticache-redis:",
    "elasticache-valkey": "elasticache-valkey:",
}
_BY_SIZE = {
    "fargate": tuple(FARGATE_SIZES),
    "fargate-spot": tuple(FARGATE_SIZES),
    "reader-memory+fargate-spot": tuple(FARGATE_SIZES),
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
# The thesis compares only with these competitors, without volumes.
_OF_THE_THESIS = ("s3-only", "ec2", "elasticache-redis", "perfect-automation", "lambda-always", "infinicache")


def quotes(market: Market, *, names: tuple[str, ...] = ()) -> list[Quote]:
    """Return the quotes of competitors, cheapest first.

    Args:
        market: Demand and prices. An always-on node of this system's type is one of the competitors.
        names: Names from `competitor_names`. A node's name may include a count (`ec2:3xt4g.nano`). If empty, every
            distinct competitor with prices in the sheet.

    Raises:
        InvalidSettingError: A name matches no competitor.
        PriceMissingError: The sheet has no price for a named competitor.
    """
    every = competitor_names(market.prices, market.setup)
    if unknown := [name for name in names if name.partition(":")[0] not in _KINDS]:
        raise InvalidSettingError(f"competitor {unknown[0]!r}: expected one of {', '.join(every)}")
    priced = []
    for name in names or progress(_candidates(market, every), text="rivals"):
        try:
            priced.append(_quote(market, name))
        except PriceMissingError:
            if names:
                raise
    return sorted(priced, key=lambda quote: quote.bill.usd_exact)


def competitor_names(prices: PriceSheet, setup: Setup) -> list[str]:
    """Return the names of all competitors, with one name per node type that the sheet prices."""
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
    """Return the competitors that another current sheet prices but this sheet does not."""
    others = [sheet for sheet in SHEETS.values() if sheet.name.startswith(_TODAYS)]
    missing = {row.item for sheet in others for row in sheet.rows} - {row.item for row in prices.rows}
    names = (name for item in missing if (name := _priced_by(item)))
    return tuple(sorted({name for name in names if name not in prices.not_sold}))


def _priced_by(item: str) -> str:
    """Return the competitor that a price sheet item belongs to, or an empty string."""
    kind, _, variant = item.partition(":")
    if item in _BY_ITEM or kind in _BY_ITEM:
        return _BY_ITEM.get(item) or _BY_ITEM[kind]
    return item if f"{kind}:" in _BY_TYPE.values() and variant else ""


def _quote(market: Market, name: str) -> Quote:
    kind, _, variant = name.partition(":")
    return _KINDS[kind](market, variant or _default_variant(kind, market.setup.instance_type))


def _default_variant(kind: str, instance_type: str) -> str:
    if kind == "perfect-automation":
        return instance_type
    if kind in _BY_TYPE:
        return instance_type if node_kind(instance_type) == "ec2" else Setup().instance_type
    return _BY_SIZE.get(kind, ("",))[0]


def _candidates(market: Market, names: Iterable[str]) -> list[str]:
    """Return the names to quote: sizes up to the first that fits all objects, and groups of nodes.

    Only the cheapest group of each size is a candidate.
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
                continue  # same as without a limit
            holding_all.add(kind)
        kept.append(name)
    grouped = [] if market.only_cache else [kind for kind in _GROUPS if any(_kind(name) == kind for name in kept)]
    return kept + [
        f"{kind}:{group.count}x{group.type_}" for kind in grouped for group in _GROUPS[kind](market) if group.count > 1
    ]


def _kind(name: str) -> str:
    return name.partition(":")[0]


def _usable_bytes(kind: str, size: str) -> float:
    bytes_ = float(size[:-2]) * (1024**3 if size.endswith("GB") else 1024**2)
    return bytes_ * float(nodes.MEMORY_SHARE) if "fargate" in kind else bytes_
