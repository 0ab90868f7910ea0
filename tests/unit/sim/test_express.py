"""Copies in S3 Express: when they are made and dropped, and what they cost."""

from __future__ import annotations

import random
from fractions import Fraction
from math import ceil

import numpy as np
import pytest

from burstcache.core.prices import price_sheet
from burstcache_sim.bill.competitors import offers
from burstcache_sim.bill.demand import demand_of
from burstcache_sim.bill.locality import locality_of
from burstcache_sim.bill.market import Market, Offer
from burstcache_sim.bill.usage import Setup
from burstcache_sim.engine.copies import keep_copies
from burstcache_sim.traces.trace import Trace
from burstcache_sim.units import HOURS_PER_MONTH, US_PER_H

TODAY = price_sheet("today-us-east-1")
S_US = 1_000_000
GB = 1024**3


def express(
    times_s: list[float], size_bytes: int, *, name: str = "s3-express", period_h: int = 1, usd_per_hit: str = "0",
    repeats: int = 1,
) -> Offer:  # fmt: skip
    times_us = np.array([round(at_s * S_US) for at_s in times_s], np.int64)
    trace = Trace(times_us, None, np.full(len(times_s), size_bytes))
    demand = demand_of(trace, object_bytes=1, period_us=period_h * US_PER_H)
    market = Market(
        demand=demand,
        locality=locality_of(trace, object_bytes=1, period_us=demand.period_us),
        prices=TODAY,
        setup=Setup(),
        usd_per_hit=Fraction(usd_per_hit),
        repeats=Fraction(repeats),
    )
    return offers(market, names=(name,))[0]


def amounts(offer: Offer) -> dict[str, Fraction]:
    return {line.item: line.quantity for line in offer.bill.lines}


@pytest.mark.parametrize(
    ("size_bytes", "usd_per_hit", "copied_at"),
    [
        (4_000, "0", 4), (100_000, "0", 5), (250_000, "0", 9), (500_000, "0", 30), (620_000 * 16 // 15, "0", 0),
        (4_000, "1e-6", 1), (100_000, "1e-6", 2), (250_000, "1e-6", 2), (2_000_000, "1e-5", 1),
    ],
)  # fmt: skip
def test_an_object_is_copied_at_the_read_at_which_its_price_says_so(
    size_bytes: int, usd_per_hit: str, copied_at: int
) -> None:
    reads = 60

    found = express([float(i) for i in range(reads)], size_bytes, usd_per_hit=usd_per_hit)

    used = amounts(found)
    assert used.get("s3-express-put", 0) == (1 if copied_at else 0)
    assert used["s3-get"] == (copied_at or reads)  # the copy serves all reads after the one that made it
    assert used["s3-express-get"] == reads  # asked first, also in vain


def test_a_copy_costs_its_request_its_bytes_and_an_hour_at_least() -> None:
    used = amounts(express([0, 1], GB, name="s3-express-all", usd_per_hit="1", period_h=1))

    assert used["s3-express-upload"] == 1
    assert used["s3-express-retrieval"] == 1
    assert float(used["s3-express-storage"]) == pytest.approx(1.0)  # GB-h
    brief = amounts(express([3599, 3599.5], GB, usd_per_hit="1"))
    assert float(brief["s3-express-storage"]) == pytest.approx(1.0)


def test_an_idle_copy_is_dropped_and_made_anew() -> None:
    size_bytes = 100_000_000
    rent_usd_per_h = 0.11 / HOURS_PER_MONTH * size_bytes / GB
    saved_usd = 0.37e-6 - 0.0006 * size_bytes / GB + 0.9e-4
    copy_usd = 1.13e-6 + 0.0032 * size_bytes / GB + rent_usd_per_h
    assert copy_usd / saved_usd > 1
    at = ceil(copy_usd / saved_usd)
    waits_s = 0.5 * (copy_usd + saved_usd) / rent_usd_per_h * 3600

    burst = [float(i) for i in range(at + 1)]
    near = express([*burst, burst[-1] + 0.99 * waits_s], size_bytes, usd_per_hit="1e-4", period_h=100)
    far = express([*burst, burst[-1] + 1.01 * waits_s], size_bytes, usd_per_hit="1e-4", period_h=100)

    assert amounts(near)["s3-get"] == at
    assert amounts(far)["s3-get"] == at + 1


def test_in_a_month_of_repetitions_everything_is_copied_once() -> None:
    used = amounts(express([0, 1, 2], 10_000, name="s3-express-all", period_h=10, repeats=73))

    assert used["s3-express-put"] == Fraction(1, 73)
    assert float(used["s3-express-storage"] * 73) == pytest.approx(730 * 10_000 / GB, rel=0.01)


def test_a_read_per_repetition_reaches_the_fourth_read_in_the_fourth() -> None:
    used = amounts(express([0], 4_000, period_h=10, repeats=20))

    assert float(used["s3-get"] * 20) == pytest.approx(4)


@pytest.mark.parametrize("seed", range(30))
def test_the_books_are_those_of_copies_kept_one_by_one(seed: int) -> None:
    draw = random.Random(seed)
    n, objects, period_us = draw.randrange(1, 120), draw.randrange(1, 8), 2_000
    times_us = np.array(sorted(draw.randrange(period_us) for _ in range(n)), np.int64)
    ids = np.array([draw.randrange(objects) for _ in range(n)], np.int64)
    sizes = np.array([draw.randrange(1, 50) for _ in range(objects)], np.int64)
    copy_at = np.array([draw.randrange(0, 4) for _ in range(objects)], np.int64)
    waits_us = np.array([draw.randrange(1, 600) for _ in range(objects)], np.int64)
    passes, least_us = draw.randrange(1, 4), draw.randrange(0, 300)

    books = keep_copies(times_us, ids, sizes, copy_at, waits_us, period_us, least_us, passes, np.ones((2, n), np.bool_))

    served = copies = held = 0
    for key in range(objects):
        reads = [int(at) + turn * period_us for turn in range(passes) for at in times_us[ids == key]]
        count, copied, last = 0, None, 0
        for at in reads:
            if copied is not None and at - last > waits_us[key]:
                held += int(sizes[key]) * (max(last + int(waits_us[key]), copied + least_us) - copied)
                count, copied = 0, None
            if copied is not None:
                served, last = served + 1, at
                continue
            count += 1
            if count == copy_at[key]:
                copies, copied, last = copies + 1, at, at
        if copied is not None:
            end = max(min(passes * period_us, last + int(waits_us[key])), copied + least_us)
            held += int(sizes[key]) * (end - copied)
    assert books.sum(axis=0)[[0, 1, 4]].tolist() == [served, copies, held], f"seed {seed}"
