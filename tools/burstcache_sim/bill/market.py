"""A demand and the prices for it, and how an offer's bill is put together. The same rules for all that is offered.

Readers in the VPC read everything directly. For readers on the internet all that speaks no HTTP itself gets the same
front door and proxy as this system (`usage.door_usage`), and everybody pays for the way to them.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from burstcache.core.prices import BYTES_PER_GB, PriceSheet
from burstcache_sim.bill.cost import Amount, Bill, BillLine, bill, bill_line
from burstcache_sim.bill.demand import Demand
from burstcache_sim.bill.locality import Locality
from burstcache_sim.bill.setup import Setup
from burstcache_sim.bill.usage import Passage, door_usage
from burstcache_sim.units import US_PER_H

VOLUME_GB = 3  # as the node's of this system
# How readers on the internet get there: through front door and proxy, directly, or from an edge that bills its own way.
Reached = Literal["door", "directly", "edge"]
Item = tuple[str, Amount, str]  # price, quantity, text; a `+` before the price marks hourly prices


@dataclass(frozen=True, slots=True)
class Offer:
    """One thing to buy: its cost for a period of the trace, and how many requests it answers without S3."""

    name: str
    bill: Bill
    in_memory_pct: float  # for S3 Express and file systems: from the copy
    note: str = ""
    own_memory_pct: float = 0.0  # requests that readers' own memory answers before it is asked
    confirmed_pct: float = 0.0  # requests for which S3 confirms what is held, without sending it
    largest_bytes: int | None = None  # of an object that it may hold; None: any
    own_memory_bytes: int | None = None  # the same of the readers' own memory


@dataclass(frozen=True, slots=True, kw_only=True)
class Market:
    """A demand, and the prices for it."""

    demand: Demand
    locality: Locality
    prices: PriceSheet
    setup: Setup
    only_cache: bool = False
    repeats: Fraction = Fraction(1)  # how often the trace comes in a row; what is always on stays warm
    usd_per_hit: Fraction = Fraction(0)  # what an answer without S3 is worth, for those who can choose what to keep
    own_memory_mb: int = 4096  # the largest memory that a reader may have
    months: int = 1  # in a run whose counts are whole: many where a month has few requests

    @property
    def all_repeats(self) -> Fraction:
        """How often the trace comes in all months of a run."""
        return self.repeats * self.months

    @property
    def hours(self) -> Fraction:
        """The period [h]."""
        return Fraction(self.demand.period_us, US_PER_H)

    @property
    def sent_share(self) -> Fraction:
        """The share of what was asked for that was sent: less than all where clients left, or had it already."""
        asked_bytes = int(self.locality.sizes_bytes[self.locality.ids].sum()) * self.demand.requests
        sent_bytes = self.demand.body_bytes * len(self.locality.ids)
        return min(Fraction(1), Fraction(sent_bytes, asked_bytes)) if asked_bytes else Fraction(1)

    def lru_misses(self, memory_bytes: int, *, largest_bytes: int | None = None, nodes: int = 1) -> Fraction:
        """Return the mean misses of a period with this much memory, of each node (`Locality.misses`)."""
        return self.locality.misses(memory_bytes, repeats=self.repeats, largest_bytes=largest_bytes, nodes=nodes)

    def offer(
        self,
        name: str,
        *items: Item | BillLine,
        misses: Amount,
        note: str = "",
        reached: Reached = "door",
        largest_bytes: int | None = None,
    ) -> Offer:
        """Return the offer with a bill of the items, of the requests that reach S3, and of what stands before it."""
        misses = min(misses, self.demand.requests)  # of a sample they are estimates
        hits = self.demand.requests - misses
        lines = [item if isinstance(item, BillLine) else self._line(item) for item in items]
        lines.append(bill_line(self.prices, "s3-get", misses, "S3 GET"))
        if not self.only_cache:
            lines += self._door_lines(hits) if reached == "door" else self._way_lines(reached)
        pct = round(float(100 * Fraction(hits) / self.demand.requests), 6)
        bill_ = Bill(self.prices.name, tuple(line for line in lines if line.quantity))
        return Offer(name, bill_, pct, note, largest_bytes=largest_bytes)

    def _line(self, item: Item) -> BillLine:
        price, quantity, text = item
        return bill_line(self.prices, price.lstrip("+"), quantity, text, is_fixed=price.startswith("+"))

    def _door_lines(self, hits: Amount) -> tuple[BillLine, ...]:
        demand = self.demand
        passage = Passage(
            requests=demand.requests,
            hits=hits,
            metered_512kb=demand.metered_512kb,
            door_bytes=demand.body_bytes,
            internet_bytes=demand.internet_bytes,
            wakes=demand.wakes,
        )
        return bill(door_usage(passage, self.setup, period_us=demand.period_us), self.prices).lines

    def _way_lines(self, reached: Reached) -> tuple[BillLine, ...]:
        if self.setup.readers == "aws" or reached == "edge":
            return ()
        gb = Fraction(self.demand.internet_bytes, BYTES_PER_GB)
        return (bill_line(self.prices, "internet-transfer", gb, "transfer to the internet"),)
