"""A node on a schedule, which runs for some hours of the day and starts cold. Its volume is always billed.

The schedule contains the busiest hours of the log's first half, or of the whole log if the log is shorter than two
days. The number of hours maximises the net value of hits in that part, or minimises the cost per hit if hits have no
value.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING

from burstcache.core.parameters import US_PER_S
from burstcache_sim.bill.config_items import items_per_run
from burstcache_sim.bill.cost import CONFIG_ITEM
from burstcache_sim.bill.locality import Locality
from burstcache_sim.bill.market import VOLUME_GB, Market, Quote
from burstcache_sim.bill.nodes import LARGEST_VALUE_BYTES, NodeGroup, ec2_nodes
from burstcache_sim.units import US_PER_H

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_HOURS_PER_DAY = 24
_HOUR_COUNTS = (1, 2, 3, 4, 6, 8, 12, 16, 20)  # candidates
_BOOT_US = 60 * US_PER_S  # billed boot time before each run
_MAX_USD = 1e30


@dataclass(frozen=True, slots=True)
class _HourSchedule:
    """A candidate schedule: hours of the day, the node's running time per period, and the requests in these hours."""

    hours: tuple[int, ...]
    on_us: int
    locality: Locality | None  # of the requests in these hours, with distinct objects per run, because runs start cold
    runs: int  # per period

    def hits(self, nodes: NodeGroup, requests_each: Fraction) -> Fraction:
        """Return a log's hits. Each sampled request represents `requests_each` requests (not exactly 1 / rate)."""
        if self.locality is None:
            return Fraction(0)
        misses = self.locality.misses(
            nodes.each_bytes, repeats=Fraction(1), largest_bytes=LARGEST_VALUE_BYTES, nodes=nodes.count
        )
        return max(Fraction(0), len(self.locality.ids) * requests_each - misses)


def scheduled(market: Market, variant: str) -> Quote:
    """Quote EC2 nodes on the schedule with the lowest net cost."""
    nodes = ec2_nodes(variant)
    usd_per_us = float(nodes.count * market.prices.usd(f"ec2:{nodes.type_}")) / US_PER_H
    value_usd = float(market.usd_per_hit)
    requests_each = Fraction(market.demand.requests, len(market.locality.ids))

    def net_cost(schedule: _HourSchedule) -> float:
        hits, usd = float(schedule.hits(nodes, requests_each)), usd_per_us * schedule.on_us
        if value_usd:
            return usd - value_usd * hits
        return usd / hits if hits else _MAX_USD

    first = _first_part(market.locality)
    best = min((_schedule(first, hours) for hours in _hour_sets(first)), key=net_cost)
    chosen = _schedule(market.locality, best.hours)
    share = Fraction(chosen.on_us, market.locality.period_us)
    runs = chosen.runs * Fraction(market.demand.period_us, market.locality.period_us)
    items = nodes.count * runs * items_per_run(nodes.type_)
    recorded = ((CONFIG_ITEM, items, "AWS Config, items"),) if market.prices.has(CONFIG_ITEM) else ()
    hours_text = f"{len(best.hours)} {'hour' if len(best.hours) == 1 else 'hours'}"
    return market.quote(
        f"ec2-scheduled:{variant}",
        (f"+ec2:{nodes.type_}", nodes.count * share * market.hours, f"{nodes.text}, {hours_text} of the day"),
        ("+ebs-gp3", nodes.count * VOLUME_GB * market.hours, "volume"),
        *recorded,
        misses=market.demand.requests - chosen.hits(nodes, requests_each),
        note=f"on a schedule, {hours_text} of {_hours_per_cycle(market.locality)}, empty at every start",
        largest_bytes=nodes.largest_bytes,
    )


def _hours_per_cycle(locality: Locality) -> int:
    """Return the length of a schedule in hours: a day, or the log's period if the period is shorter."""
    return min(_HOURS_PER_DAY, -(-locality.period_us // US_PER_H))


@lru_cache(maxsize=4)
def _first_part(locality: Locality) -> Locality:
    """Return the whole days in the first half of the log, or the whole log if the log is shorter than two days."""
    days = int(locality.times_us[-1]) // (2 * _HOURS_PER_DAY * US_PER_H)
    if days < 1:
        return locality
    period_us = days * _HOURS_PER_DAY * US_PER_H
    kept = locality.part(locality.times_us < period_us)
    return replace(kept, period_us=period_us)


@lru_cache(maxsize=4)
def _hour_sets(locality: Locality) -> list[tuple[int, ...]]:
    """Return sets of the busiest hours, one for each candidate size."""
    import numpy as np

    hours = _hours_per_cycle(locality)
    counts = np.bincount(_hour_of(locality.times_us, hours), minlength=hours)
    ranked = [int(hour) for hour in np.argsort(-counts, kind="stable") if counts[hour]]
    return [tuple(sorted(ranked[:count])) for count in _HOUR_COUNTS if count <= min(len(ranked), hours - 1)] or [()]


@lru_cache(maxsize=64)
def _schedule(locality: Locality, hours: tuple[int, ...]) -> _HourSchedule:
    import numpy as np

    of_day = _hours_per_cycle(locality)
    is_on = np.isin(np.arange(-(-locality.period_us // US_PER_H)) % of_day, hours)
    runs = int(is_on[0]) + int(np.count_nonzero(is_on[1:] & ~is_on[:-1]))
    on_us = min(int(is_on.sum()) * US_PER_H + runs * _BOOT_US, locality.period_us)
    at_hour = np.minimum(locality.times_us // US_PER_H, len(is_on) - 1)
    kept = is_on[at_hour]
    if not kept.any():
        return _HourSchedule(hours, on_us, None, runs)
    run = np.cumsum(~is_on)[at_hour]
    ids_per_run = locality.ids + run * len(locality.sizes_bytes)
    distinct, ids = np.unique(ids_per_run[kept], return_inverse=True)
    objects = distinct % len(locality.sizes_bytes)
    served = replace(
        locality,
        times_us=locality.times_us[kept],
        ids=ids.astype(np.int64),
        sizes_bytes=locality.sizes_bytes[objects],
        numbers=objects if locality.numbers is None else locality.numbers[objects],
        renewed=locality.is_renewed[objects],
        whole_bytes=None if locality.whole_bytes is None else locality.whole_bytes[objects],
        object_ids=None,
        starts_bytes=None,
        _curves={},
    )
    return _HourSchedule(hours, on_us, served, runs)


def _hour_of(times_us: NDArray[np.int64], hours: int) -> NDArray[np.int64]:
    return times_us // US_PER_H % hours
