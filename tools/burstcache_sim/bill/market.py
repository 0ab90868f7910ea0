"""The market of competitors: a demand, its prices, and the billing rules for every quote.

Readers in the VPC use competitors directly. For readers on the internet, a competitor without an HTTP interface gets
the same front door and proxy as this system (`usage.door_usage`), and every bill includes internet transfer.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from burstcache.core.prices import BYTES_PER_GB, PriceSheet
from burstcache_sim.bill.cache_losses import CacheLosses
from burstcache_sim.bill.cost import Amount, Bill, BillLine, bill, bill_line
from burstcache_sim.bill.demand import Demand
from burstcache_sim.bill.locality import Locality
from burstcache_sim.bill.setup import Setup
from burstcache_sim.bill.usage import DoorTraffic, door_usage
from burstcache_sim.traces.trace import exact_sum
from burstcache_sim.units import US_PER_H

VOLUME_GB = 3  # same as this system's node
# The read path from the internet: through front door and proxy, direct, or through an edge with its own prices.
ReadPath = Literal["door", "direct", "edge"]
Item = tuple[str, Amount, str]  # price item, quantity, text (an item with prefix `+` has an hourly price)


@dataclass(frozen=True, slots=True)
class Quote:
    """A competitor's cost for a period of the trace, and its share of requests served without S3."""

    name: str
    bill: Bill
    in_memory_pct: float  # for S3 Express and file systems: requests served from a copy
    note: str = ""
    own_memory_pct: float = 0.0  # hits in readers' own memory, in front of the competitor
    confirmed_pct: float = 0.0  # requests for which S3 confirms the cached copy with a 304
    largest_bytes: int | None = None  # largest cacheable object (None: any size)
    own_memory_bytes: int | None = None  # largest object that readers' own memory accepts (None: any size)


@dataclass(frozen=True, slots=True, kw_only=True)
class Market:
    """A demand, its prices and the deployment to quote for."""

    demand: Demand
    locality: Locality
    prices: PriceSheet
    setup: Setup
    only_cache: bool = False
    repeats: Fraction = Fraction(1)  # consecutive repetitions of the trace, between which always-on caches stay warm
    usd_per_hit: Fraction = Fraction(0)  # hit value, for competitors that choose which objects to keep
    own_memory_mb: int = 4096  # memory limit of each reader
    months: int = 1  # months per run; many if a month has few requests, because a run's counts are integers

    @property
    def all_repeats(self) -> Fraction:
        """Repetitions of the trace in all months of a run."""
        return self.repeats * self.months

    @property
    def hours(self) -> Fraction:
        """The demand's period [h]."""
        return Fraction(self.demand.period_us, US_PER_H)

    @property
    def sent_share(self) -> Fraction:
        """The share of requested bytes that were sent, below 1 if clients disconnected or already had the object."""
        requested_bytes = exact_sum(self.locality.sizes_bytes[self.locality.ids]) * self.demand.requests
        sent_bytes = self.demand.body_bytes * len(self.locality.ids)
        return min(Fraction(1), Fraction(sent_bytes, requested_bytes)) if requested_bytes else Fraction(1)

    def lru_misses(
        self,
        memory_bytes: int,
        *,
        largest_bytes: int | None = None,
        nodes: int = 1,
        losses: CacheLosses | None = None,
    ) -> Fraction:
        """Return the mean misses per period of LRU nodes with this memory each (`Locality.misses`)."""
        return self.locality.misses(
            memory_bytes, repeats=self.repeats, largest_bytes=largest_bytes, nodes=nodes, losses=losses
        )

    def quote(
        self,
        name: str,
        *items: Item | BillLine,
        misses: Amount,
        note: str = "",
        read_path: ReadPath = "door",
        largest_bytes: int | None = None,
    ) -> Quote:
        """Return a quote that bills the items, the requests to S3 and the read path."""
        misses = min(misses, self.demand.requests)  # for a sample, misses are an estimate
        hits = self.demand.requests - misses
        lines = [item if isinstance(item, BillLine) else self._line(item) for item in items]
        lines.append(bill_line(self.prices, "s3-get", misses, "S3 GET"))
        if not self.only_cache:
            lines += self._door_lines(hits) if read_path == "door" else self._transfer_lines(read_path)
        pct = round(float(100 * Fraction(hits) / self.demand.requests), 6)
        bill_ = Bill(self.prices.name, tuple(line for line in lines if line.quantity))
        return Quote(name, bill_, pct, note, largest_bytes=largest_bytes)

    def _line(self, item: Item) -> BillLine:
        price, quantity, text = item
        return bill_line(self.prices, price.lstrip("+"), quantity, text, is_fixed=price.startswith("+"))

    def _door_lines(self, hits: Amount) -> tuple[BillLine, ...]:
        demand = self.demand
        traffic = DoorTraffic(
            requests=demand.requests,
            hits=hits,
            metered_512kb=demand.metered_512kb,
            door_bytes=demand.body_bytes,
            internet_bytes=demand.internet_bytes,
            wakes=demand.wakes,
        )
        return bill(door_usage(traffic, self.setup, period_us=demand.period_us), self.prices).lines

    def _transfer_lines(self, read_path: ReadPath) -> tuple[BillLine, ...]:
        if self.setup.readers == "aws" or read_path == "edge":
            return ()
        gb = Fraction(self.demand.internet_bytes, BYTES_PER_GB)
        return (bill_line(self.prices, "internet-transfer", gb, "transfer to the internet"),)
