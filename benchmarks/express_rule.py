"""What the rule of copies in S3 Express costs, by the cost of one who knows the future.

    python -m benchmarks.express_rule [LOG …]

A cost is that of all reads up to the last one: GETs, retrieval, copies, storage, and what waits for S3 and Express are
worth. The clairvoyant decides for each object when to copy it and when to delete the copy, which is billed for at least
an hour, and asks Express only where there is one. `core.express` knows prices and the past, asks Express first, and
leaves the deletion to S3.
"""

from __future__ import annotations

import argparse
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.common import environment
from burstcache.core.express import LEAST_US, SAVED_SHARE, ExpressRule, express_rule
from burstcache.core.parameters import US_PER_S
from burstcache.core.prices import price_sheet
from burstcache_sim.engine.run import run_compiled
from burstcache_sim.policies.thesis import Thesis
from burstcache_sim.traces.generate import zipf
from burstcache_sim.traces.read import read_log
from burstcache_sim.traces.trace import Trace
from burstcache_sim.world.scenario import Scenario

SHEET = price_sheet("today-us-east-1")
WORTHS_USD = (0.0, 1e-6, 1e-5)
SIZES_BYTES = (1_000, 4_000, 20_000, 100_000, 400_000, 1_000_000)
NO_MEMORY = Thesis(Thesis.configured(9, 4).parameters, has_relay=False).without_redis(0)


@dataclass(frozen=True, slots=True)
class Prices:
    """What reads cost if a saved wait for S3 has a worth [USD]."""

    wait_usd: float

    @property
    def rule(self) -> ExpressRule:
        """The rule for that worth."""
        return express_rule(SHEET, hit_value_usd=self.wait_usd)

    @property
    def s3_usd(self) -> float:
        """One read from S3."""
        return float(SHEET.usd("s3-get")) + self.wait_usd

    @property
    def ask_usd(self) -> float:
        """One question to Express."""
        return float(SHEET.usd("s3-express-get"))

    def copy_read_usd(self, size_bytes: float) -> float:
        """Return what one read from a copy costs."""
        retrieval_usd = self.rule.retrieval_usd_per_byte * size_bytes
        return self.ask_usd + retrieval_usd + (1 - SAVED_SHARE) * self.wait_usd

    def rent_usd(self, size_bytes: float, held_us: float) -> float:
        """Return what a copy costs while it is there, without the hour that is billed at least."""
        return self.rule.storage_usd_per_byte_us * size_bytes * held_us


def ruled_usd(prices: Prices, trace: Trace) -> float:
    """Return what the rule costs."""
    run = run_compiled(
        [NO_MEMORY], Scenario(trace, until_us=int(trace.arrivals_us[-1]), express=prices.rule), details=False
    )[0]
    use, rule = run.express, prices.rule
    reads_usd = run.n_s3 * prices.s3_usd + run.n_express * prices.copy_read_usd(0)
    reads_usd += rule.retrieval_usd_per_byte * use.read_bytes + (use.asks - run.n_express) * prices.ask_usd
    copies_usd = use.copies * rule.put_usd + use.copied_bytes * rule.upload_usd_per_byte
    return reads_usd + copies_usd + prices.rent_usd(use.byte_s, US_PER_S)


def clairvoyant_usd(prices: Prices, times_us: Sequence[int], size_bytes: int) -> float:
    """Return the least cost of the reads of one object.

    With f(j) the least cost of the first j reads, the last from S3 or the last that its copy serves: a copy made at the
    i-th read and deleted after the j-th costs its PUT, its rent, and j - i reads. An hour or more of rent grows with
    the time, less is an hour's; so two running minima are enough.
    """
    read_usd, s3_usd = prices.copy_read_usd(size_bytes), prices.s3_usd
    if read_usd >= s3_usd:
        return len(times_us) * s3_usd
    put_usd = prices.rule.put_usd + prices.rule.upload_usd_per_byte * size_bytes
    hour_usd = prices.rent_usd(size_bytes, LEAST_US)
    best_usd, long_usd = 0.0, float("inf")
    young: deque[tuple[int, float]] = deque()  # copies made within the last hour, the cheapest first
    waiting: deque[tuple[int, float]] = deque()  # the same in the order of time
    for j, at_us in enumerate(times_us):
        while waiting and at_us - waiting[0][0] >= LEAST_US:
            made_us, usd = waiting.popleft()
            long_usd = min(long_usd, usd - prices.rent_usd(size_bytes, made_us))
        while young and at_us - young[0][0] >= LEAST_US:
            young.popleft()
        ways_usd = [best_usd + s3_usd, long_usd + prices.rent_usd(size_bytes, at_us) + (j + 1) * read_usd]
        if young:
            ways_usd.append(young[0][1] + hour_usd + (j + 1) * read_usd)
        from_s3_usd, best_usd = best_usd + s3_usd, min(ways_usd)
        made_usd = from_s3_usd + put_usd - (j + 1) * read_usd
        waiting.append((at_us, made_usd))
        while young and young[-1][1] >= made_usd:
            young.pop()
        young.append((at_us, made_usd))
    return best_usd


def by_object(trace: Trace) -> Iterator[tuple[list[int], int]]:
    """Yield the times [us] and the size [bytes] of each object, its first size if it has several."""
    assert trace.key_ids is not None
    assert trace.sizes_bytes is not None
    order = np.argsort(trace.key_ids, kind="stable")
    firsts = np.flatnonzero(np.diff(trace.key_ids[order], prepend=-1))
    for places in np.split(order, firsts[1:]):
        yield trace.arrivals_us[places].tolist(), int(trace.sizes_bytes[places[0]])


def of_one_size(trace: Trace) -> Trace:
    """Return a trace in which an object keeps its first size: a write is no part of either cost."""
    assert trace.key_ids is not None
    assert trace.sizes_bytes is not None
    _, firsts = np.unique(trace.key_ids, return_index=True)
    sizes_bytes = np.zeros(int(trace.key_ids.max()) + 1, np.int64)
    sizes_bytes[trace.key_ids[firsts]] = trace.sizes_bytes[firsts]
    return Trace(trace.arrivals_us, trace.key_ids, sizes_bytes[trace.key_ids], trace.keys)


def mixes() -> Iterator[tuple[str, Trace]]:
    """Yield loads whose objects have sizes from 1 KB to 1 MB."""
    for name, per_min, days, keys, exponent in (
        ("Zipf 1, 1,000 objects, 60/min, 3 days", 60, 3, 1_000, 1.0),
        ("Zipf 0.8, 20,000 objects, 60/min, 3 days", 60, 3, 20_000, 0.8),
        ("even, 1,000 objects, 10/min, 7 days", 10, 7, 1_000, 0.0),
        ("always new, 60/min, 1 day", 60, 1, 10**7, 0.0),
    ):
        arrivals_us, ids = zipf(1, per_min, days * 86_400, keys, exponent)
        _, key_ids = np.unique(np.array(ids), return_inverse=True)
        sizes_bytes = np.array(SIZES_BYTES)[key_ids % len(SIZES_BYTES)]
        names = tuple(map(str, range(int(key_ids.max()) + 1)))
        yield name, Trace(np.array(arrivals_us), key_ids.astype(np.int32), sizes_bytes, names)


def main() -> None:
    """Print a row per load: cost by the clairvoyant's, and by that of S3 alone."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("logs", nargs="*", metavar="LOG")
    print(environment())
    heads = [f"v = {worth_usd:g}" for worth_usd in WORTHS_USD]
    print(f"{'cost of the rule by the clairvoyant’s (by S3 alone)':<52}" + "".join(f"{head:>20}" for head in heads))
    logs = ((path, of_one_size(read_log([path]).trace)) for path in parser.parse_args().logs)
    for name, trace in (*logs, *mixes()):
        cells = []
        for worth_usd in WORTHS_USD:
            prices = Prices(worth_usd)
            ruled = ruled_usd(prices, trace)
            least = sum(clairvoyant_usd(prices, *each) for each in by_object(trace))
            cells.append(f"{ruled / least:>12.3f} ({ruled / (len(trace) * prices.s3_usd):5.3f})")
        print(f"{name[-52:]:<52}" + "".join(f"{cell:>20}" for cell in cells), flush=True)


if __name__ == "__main__":
    main()
