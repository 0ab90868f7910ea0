"""Forecast a log's second half from its first, as `burstcache advise` does, and compare it with that half.

    python -m benchmarks.halves LOG… [--hit-value-usd 1e-5]

The machinery of `advise` gets the requests of the first half, by time. Its next span is warm after the first: two
repetitions less one, with the new objects that the growth of the half lets expect. What the second half really had is
the whole log, once, less its first half. The stated confidence is from the first half alone as well. A forecast of
money is of as many requests and bytes as the second half has: how much traffic grows nobody foretells. Below each log
stands how often the stated confidence held when parts of the log were taken for logs, with six sizes of memory each.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from pathlib import Path

import numpy as np

from benchmarks.support.common import environment
from burstcache.core.prices import PriceSheet, price_sheet
from burstcache_sim.bill.comparison import own_bill
from burstcache_sim.bill.competitors import quotes
from burstcache_sim.bill.cost import BillLine
from burstcache_sim.bill.demand import demand_of
from burstcache_sim.bill.halves import expected_next_pct, forecasts, half, margin_points, measured_pct
from burstcache_sim.bill.locality import EVERYTHING_BYTES, Locality, locality_of
from burstcache_sim.bill.market import Market
from burstcache_sim.bill.renewal import with_renewal
from burstcache_sim.bill.setup import Setup
from burstcache_sim.bill.static_tiers import static_month
from burstcache_sim.traces.read import read_log
from burstcache_sim.traces.trace import Trace
from burstcache_terminal.text import table_text

_OBJECT_BYTES = 10_000
_MEMORIES_MB = (16, 64, 256, 1024, 4096)
_SYSTEMS = (
    *("s3-only", "reader-memory:64MB", "reader-memory:1024MB", "s3-express", "s3-express-all", "ec2:t4g.nano"),
    *("fargate-spot:0.5GB", "cloudfront"),
)
_STACK = "the stack: 64 MB, S3 Express"
_PARTS = ((0.0, 1.0), (0.0, 0.5), (0.5, 1.0), (0.25, 0.75), (0.0, 0.75), (0.25, 1.0))  # of the span
_SHARES = (0.01, 0.03, 0.1, 0.3, 1.0, 2.0)  # of all objects, in memory
_NEARLY_POINTS = 2.0  # that a share may be off without the answer having said so


@dataclass(frozen=True, slots=True)
class Spent:
    """The S3 GETs and the bill of one system: by the hour, by the request, by the byte."""

    hours_usd: Fraction
    requests_usd: Fraction
    bytes_usd: Fraction
    s3_gets: Fraction

    @property
    def usd(self) -> Fraction:
        """The bill [USD]."""
        return self.hours_usd + self.requests_usd + self.bytes_usd

    @classmethod
    def of(cls, lines: Iterable[BillLine], s3_gets: Fraction) -> Spent:
        """Return the sums of a bill's lines."""
        usd = {"h": Fraction(0), "request": Fraction(0), "byte": Fraction(0)}
        for line in lines:
            usd["h" if line.is_fixed else "byte" if line.unit == "GB" else "request"] += line.usd_exact
        return cls(usd["h"], usd["request"], usd["byte"], s3_gets)

    def plus(self, other: Spent, times: int = 1) -> Spent:
        """Return the sum with several times another."""
        return Spent(
            self.hours_usd + times * other.hours_usd,
            self.requests_usd + times * other.requests_usd,
            self.bytes_usd + times * other.bytes_usd,
            self.s3_gets + times * other.s3_gets,
        )

    def scaled(self, requests: Fraction, bytes_: Fraction) -> Spent:
        """Return it for as many times the requests and the bytes."""
        return Spent(self.hours_usd, self.requests_usd * requests, self.bytes_usd * bytes_, self.s3_gets * requests)


def main(argv: Sequence[str] | None = None) -> None:
    """Print a table of shares and one of bills for each log."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("logs", nargs="+", metavar="LOG")
    parser.add_argument("--hit-value-usd", type=float, default=1e-5, metavar="USD", help="default: 1e-5")
    args = parser.parse_args(argv)
    print(environment())
    kept = tried = 0
    for path in args.logs:
        trace = read_log([path], skip_bad_rows=True).trace
        print(f"\n{Path(path).name}\n{report(trace, Fraction(args.hit_value_usd))}")
        of_log = promises(_locality(trace))
        kept, tried = kept + sum(of_log), tried + len(of_log)
        print(f"stated confidence held for {sum(of_log)} of {len(of_log)} shares of parts")
    print(f"\nall logs: {kept} of {tried}")


def report(trace: Trace, usd_per_hit: Fraction) -> str:
    """Return the tables of a log."""
    begun_s = time.process_time()
    whole = _locality(trace)
    middle = half(whole)
    if min(middle, len(whole.ids) - middle) == 0:
        return "all requests are in one half"
    first = _locality(trace.part(slice(middle)))
    sizes = [mb * 1024**2 for mb in _MEMORIES_MB] + [EVERYTHING_BYTES]
    sure = {size: margin_points(found) for size, found in forecasts(first, sizes).items()}
    shares, bills = _shares(whole, first, middle, sure), _bills(trace, middle, usd_per_hit, sure[EVERYTHING_BYTES])
    count = f"{middle:,} and {len(whole.ids) - middle:,} requests in its halves, {float(whole.objects):,.0f} objects"
    return f"{count}; {time.process_time() - begun_s:.1f} s of processor time\n{shares}\n{bills}"


def promises(whole: Locality) -> list[bool]:
    """Return whether each share of a second half was as near to the forecast as the first half had it."""
    found = []
    for begin, end in _PARTS:
        last_us = int(whole.times_us[-1])
        part = whole.part((whole.times_us >= begin * last_us) & (whole.times_us <= end * last_us))
        middle = half(part) if len(part.ids) else 0
        if not 0 < middle < len(part.ids):
            continue
        first = part.part(np.arange(len(part.ids)) < middle)
        sizes = [max(1, int(share * part.stored_bytes)) for share in _SHARES]
        expected, measured = expected_next_pct(first, sizes), measured_pct(part, middle, sizes)
        for size_bytes, tried in forecasts(first, sizes).items():
            sure = margin_points(tried)
            if sure is not None:
                found.append(abs(expected[size_bytes] - measured[size_bytes]) <= max(sure, _NEARLY_POINTS))
    return found


def _shares(whole: Locality, first: Locality, middle: int, stated: dict[int, float | None]) -> str:
    sizes = list(stated)
    expected, measured = expected_next_pct(first, sizes), measured_pct(whole, middle, sizes)
    same = expected_next_pct(first, sizes, renews=False)
    rows = []
    for size_bytes in sizes:
        error, sure = expected[size_bytes] - measured[size_bytes], stated[size_bytes]
        is_kept = abs(error) <= _NEARLY_POINTS or sure is None or abs(error) <= sure
        rows.append(
            (
                "no limit" if size_bytes == EVERYTHING_BYTES else f"{size_bytes // 1024**2:,} MB",
                *(f"{share[size_bytes]:.1f}" for share in (same, expected, measured)),
                f"{error:+.1f}",
                "too short" if sure is None else f"+/- {sure:.1f}",
                "yes" if is_kept else "NO",
            )
        )
    header = ("memory", "same log again %", "expected %", "measured %", "off by", "stated", "kept")
    return table_text(header, rows, right=range(1, 6))


def _bills(trace: Trace, middle: int, usd_per_hit: Fraction, sure_points: float | None) -> str:
    """Return a row per system; a bill is as sure as its misses, each at what the next one costs."""
    prices = price_sheet("today-us-east-1")
    first, second = trace.part(slice(middle)), trace.part(slice(middle, None))
    span_us = int(trace.arrivals_us[-1] - trace.arrivals_us[0])
    market = _market(first, prices, usd_per_hit, span_us // 2)
    whole = _market(trace, prices, usd_per_hit, span_us)
    once, twice = (_spent(replace(market, repeats=Fraction(repeats))) for repeats in (1, 2))
    of_whole = _spent(replace(whole, locality=replace(whole.locality, renewed=None, _curves={})))
    more = Fraction(len(second), len(first))
    more_bytes = Fraction(*(demand_of(part, object_bytes=_OBJECT_BYTES).body_bytes for part in (second, first)))
    rows = []
    for name, spent in of_whole.items():
        if name not in once:
            continue
        warm = twice[name].plus(twice[name]).plus(once[name], -1)
        expected, had = warm.scaled(more, more_bytes), spent.plus(once[name], -1)
        saved = once[name].plus(warm, -1)
        miss_usd = (saved.usd - saved.hours_usd) / saved.s3_gets if saved.s3_gets else Fraction(0)
        if "xpress" in name and warm.s3_gets:  # a miss is copied and stored
            miss_usd = max(miss_usd, (warm.usd - warm.hours_usd) / warm.s3_gets)
        stated_usd = Fraction(sure_points or 0) / 100 * len(second) * max(miss_usd, prices.usd("s3-get"))
        gets = (f"{float(one.s3_gets):,.0f}" for one in (expected, had))
        off_pct = 100 * (expected.usd / had.usd - 1) if had.usd else Fraction(0)
        is_kept = sure_points is None or abs(off_pct) <= _NEARLY_POINTS or abs(expected.usd - had.usd) <= stated_usd
        stated = "too short" if sure_points is None else f"{float(stated_usd):.5f}"
        usd = (*(f"{float(amount):.5f}" for amount in (expected.usd, had.usd)), stated)
        rows.append((name, *gets, *usd, f"{float(off_pct):+.1f}", "yes" if is_kept else "NO"))
    header = ("system", "S3 GETs expected", "had", "USD expected", "had", "stated +/-", "off by %", "kept")
    return table_text(header, rows, right=range(1, 7))


def _market(trace: Trace, prices: PriceSheet, usd_per_hit: Fraction, period_us: int) -> Market:
    demand = demand_of(trace, object_bytes=_OBJECT_BYTES, period_us=period_us)
    locality = with_renewal(replace(_locality(trace), period_us=demand.period_us))
    return Market(demand=demand, locality=locality, prices=prices, setup=Setup(), usd_per_hit=usd_per_hit)


def _spent(market: Market) -> dict[str, Spent]:
    """Return the mean of a repetition, by system."""
    found = {}
    for offer in quotes(market, names=_SYSTEMS):
        gets = sum((Fraction(line.quantity) for line in offer.bill.lines if line.item == "s3-get"), Fraction(0))
        found[offer.name] = Spent.of(offer.bill.lines, gets)
    setup = Setup(relay="none", nodes=0, reader_memory_bytes=64 * 1024**2, express=True)
    run = static_month(replace(market, setup=setup), market.usd_per_hit)
    bill = own_bill(run, market.demand.repeated(market.repeats), market.prices, setup)
    of_all = Spent.of(bill.lines, Fraction(run.s3_requests + run.range_gets))
    found[_STACK] = Spent(*(getattr(of_all, part.name) / market.repeats for part in fields(Spent)))
    return found


def _locality(trace: Trace) -> Locality:
    span_us = int(trace.arrivals_us[-1] - trace.arrivals_us[0])
    return locality_of(trace, object_bytes=_OBJECT_BYTES, period_us=span_us)


if __name__ == "__main__":
    main()
