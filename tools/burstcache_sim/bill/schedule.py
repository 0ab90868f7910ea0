"""A node that a schedule switches on for some hours of the day, cold every time; its volume is always there.

The hours are those with the most requests in the first half of the log, or in all of it if it is shorter than two
days. How many of them is chosen there, too: the most net value of a hit, or the least cost of one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING

from burstcache.core.parameters import US_PER_S
from burstcache_sim.bill.locality import Locality
from burstcache_sim.bill.market import VOLUME_GB, Market, Offer
from burstcache_sim.bill.nodes import LARGEST_VALUE_BYTES, Nodes, ec2_nodes
from burstcache_sim.units import US_PER_H

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_HOURS_PER_DAY = 24
_NUMBERS = (1, 2, 3, 4, 6, 8, 12, 16, 20)  # of hours worth trying
_BOOT_US = 60 * US_PER_S  # on before each run
_GREATEST_USD = 1e30


@dataclass(frozen=True, slots=True)
class _Tried:
    """Some hours of the day: how long the node is on in a period, and what an LRU cache answers in them."""

    hours: tuple[int, ...]
    on_us: int
    locality: Locality | None  # of the requests in these hours, an object of another run being another one

    def hits(self, nodes: Nodes, requests_each: Fraction) -> Fraction:
        """Return the hits if each request stands for as many, which in a sample is not what each key stands for."""
        if self.locality is None:
            return Fraction(0)
        misses = self.locality.misses(
            nodes.each_bytes, repeats=Fraction(1), largest_bytes=LARGEST_VALUE_BYTES, nodes=nodes.count
        )
        return max(Fraction(0), len(self.locality.ids) * requests_each - misses)


def scheduled(market: Market, of: str) -> Offer:
    """Return nodes of EC2 on a schedule, with the best hours for their price."""
    nodes = ec2_nodes(of)
    usd_per_us = float(nodes.count * market.prices.usd(f"ec2:{nodes.type_}")) / US_PER_H
    value_usd = float(market.usd_per_hit)
    requests_each = Fraction(market.demand.requests, len(market.locality.ids))

    def badness(tried: _Tried) -> float:
        hits, usd = float(tried.hits(nodes, requests_each)), usd_per_us * tried.on_us
        if value_usd:
            return usd - value_usd * hits
        return usd / hits if hits else _GREATEST_USD

    first = _first_part(market.locality)
    best = min((_tried(first, hours) for hours in _sets(first)), key=badness)
    chosen = _tried(market.locality, best.hours)
    share = Fraction(chosen.on_us, market.locality.period_us)
    many = f"{len(best.hours)} {'hour' if len(best.hours) == 1 else 'hours'}"
    return market.offer(
        f"ec2-scheduled:{of}",
        (f"+ec2:{nodes.type_}", nodes.count * share * market.hours, f"{nodes.text}, {many} of the day"),
        ("+ebs-gp3", nodes.count * VOLUME_GB * market.hours, "volume"),
        misses=market.demand.requests - chosen.hits(nodes, requests_each),
        note=f"on a schedule, {many} of {_hours_of(market.locality)}, empty at every start",
        largest_bytes=nodes.largest_bytes,
    )


def _hours_of(locality: Locality) -> int:
    """Return how many hours the schedule has: those of a day, or of a shorter period."""
    return min(_HOURS_PER_DAY, -(-locality.period_us // US_PER_H))


@lru_cache(maxsize=4)
def _first_part(locality: Locality) -> Locality:
    """Return the first whole days of the log's first half with their time; all of it below two days."""
    days = int(locality.times_us[-1]) // (2 * _HOURS_PER_DAY * US_PER_H)
    if days < 1:
        return locality
    period_us = days * _HOURS_PER_DAY * US_PER_H
    kept = locality.part(locality.times_us < period_us)
    return replace(kept, period_us=period_us)


@lru_cache(maxsize=4)
def _sets(locality: Locality) -> list[tuple[int, ...]]:
    """Return the busiest hours: one, two, three …"""
    import numpy as np

    hours = _hours_of(locality)
    counts = np.bincount(_hour_of(locality.times_us, hours), minlength=hours)
    ranked = [int(hour) for hour in np.argsort(-counts, kind="stable") if counts[hour]]
    return [tuple(sorted(ranked[:number])) for number in _NUMBERS if number <= min(len(ranked), hours - 1)] or [()]


@lru_cache(maxsize=64)
def _tried(locality: Locality, hours: tuple[int, ...]) -> _Tried:
    import numpy as np

    of_day = _hours_of(locality)
    is_on = np.isin(np.arange(-(-locality.period_us // US_PER_H)) % of_day, hours)
    runs = int(is_on[0]) + int(np.count_nonzero(is_on[1:] & ~is_on[:-1]))
    on_us = min(int(is_on.sum()) * US_PER_H + runs * _BOOT_US, locality.period_us)
    at_hour = np.minimum(locality.times_us // US_PER_H, len(is_on) - 1)
    kept = is_on[at_hour]
    if not kept.any():
        return _Tried(hours, on_us, None)
    run = np.cumsum(~is_on)[at_hour]
    apart = locality.ids + run * len(locality.sizes_bytes)
    seen, ids = np.unique(apart[kept], return_inverse=True)
    objects = seen % len(locality.sizes_bytes)
    met = replace(
        locality,
        times_us=locality.times_us[kept],
        ids=ids.astype(np.int64),
        sizes_bytes=locality.sizes_bytes[objects],
        numbers=objects if locality.numbers is None else locality.numbers[objects],
        renewed=locality.is_renewed[objects],
        whole_bytes=None if locality.whole_bytes is None else locality.whole_bytes[objects],
        _curves={},
    )
    return _Tried(hours, on_us, met)


def _hour_of(times_us: NDArray[np.int64], hours: int) -> NDArray[np.int64]:
    return times_us // US_PER_H % hours
