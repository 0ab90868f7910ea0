"""Copies in S3 Express: when they are made and dropped, and what they cost."""

from __future__ import annotations

import random
from fractions import Fraction

import numpy as np
import pytest

from burstcache.core.express import LEAST_US, US_PER_DAY, CopyCounts, expires_us, express_rule
from burstcache.core.prices import price_sheet
from burstcache_sim.bill.competitors import quotes
from burstcache_sim.bill.demand import demand_of
from burstcache_sim.bill.locality import locality_of
from burstcache_sim.bill.market import Market, Quote
from burstcache_sim.bill.setup import Setup
from burstcache_sim.engine.copies import keep_copies
from burstcache_sim.traces.trace import Trace
from burstcache_sim.units import US_PER_H
from burstcache_sim.world.express import copy_rules
from support.searches import seeds

TODAY = price_sheet("today-us-east-1")
S_US = 1_000_000
DAY_S = 86_400
GB = 1024**3


def express(
    times_s: list[float], size_bytes: int, *, name: str = "s3-express", period_h: int = 1, usd_per_hit: str = "0",
    repeats: int = 1,
) -> Quote:  # fmt: skip
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
    return quotes(market, names=(name,))[0]


def amounts(offer: Quote) -> dict[str, Fraction]:
    items: dict[str, Fraction] = {}
    for line in offer.bill.lines:
        items[line.item] = items.get(line.item, Fraction(0)) + line.quantity
    return items


@pytest.mark.parametrize(
    ("size_bytes", "usd_per_hit", "copied_at"),
    [
        (4_000, "0", 4), (100_000, "0", 5), (250_000, "0", 9), (500_000, "0", 30), (620_000 * 16 // 15, "0", 0),
        (4_000, "1e-6", 1), (100_000, "1e-6", 2), (250_000, "1e-6", 2), (2_000_000, "1e-5", 2),
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


def test_a_copy_is_deleted_by_age_and_made_anew() -> None:
    near, far = (amounts(express([0, 1, 2, 3, days * DAY_S], 4_000, period_h=2400)) for days in (63.9, 65.1))

    assert (near["s3-get"], near["s3-express-put"]) == (4, 1)
    assert (far["s3-get"], far["s3-express-put"]) == (5, 1)


def test_a_copy_whose_reads_had_paid_for_it_is_made_anew_at_once() -> None:
    used = amounts(express([0, 1, 2, 3, 4, 5, 6, 60 * DAY_S, 90 * DAY_S, 91 * DAY_S], 4_000, period_h=2400))

    assert (used["s3-get"], used["s3-express-put"]) == (4 + 1, 2)


def test_in_a_month_of_repetitions_everything_is_copied_once() -> None:
    used = amounts(express([0, 1, 2], 10_000, name="s3-express-all", period_h=10, repeats=73))

    assert used["s3-express-put"] == Fraction(1, 73)
    assert float(used["s3-express-storage"] * 73) == pytest.approx(730 * 10_000 / GB, rel=0.01)


def test_a_read_per_repetition_reaches_the_fourth_read_in_the_fourth() -> None:
    used = amounts(express([0], 4_000, period_h=10, repeats=20))

    assert float(used["s3-get"] * 20) == pytest.approx(4)


@pytest.mark.parametrize("seed", seeds(30))
def test_the_books_are_those_of_a_reader_that_counts_key_by_key(seed: int) -> None:
    draw = random.Random(seed)
    n, objects, period_us = draw.randrange(1, 300), draw.randrange(1, 40), 150 * US_PER_DAY
    times_us = np.array(sorted(draw.randrange(period_us) for _ in range(n)), np.int64)
    ids = np.array([int(objects * draw.random() ** 2) for _ in range(n)], np.int64)
    sizes = np.array([int(10 ** draw.uniform(0, 6)) for _ in range(objects)], np.int64)
    passes = draw.randrange(1, 4)
    rule = express_rule(TODAY, hit_value_usd=draw.choice([0, 1e-6, 1e-5]))

    asked = np.ones((2, n), np.bool_)
    books = keep_copies(
        *(times_us, ids, sizes, copy_rules(rule, sizes), period_us, LEAST_US, passes, asked),
        np.zeros(objects, np.bool_),
        passes * period_us,
    )

    reader, puts_us = CopyCounts[int](rule, {}), dict[int, int]()
    served = copies = held = 0
    for turn in range(passes):
        for at, key in zip((times_us + turn * period_us).tolist(), ids.tolist(), strict=True):
            size = int(sizes[key])
            put_us = puts_us.get(key)
            if put_us is not None and at >= (end_us := expires_us(put_us, rule.keep_days(size))):
                held, put_us = held + size * (end_us - put_us), None
                del puts_us[key]
            if put_us is not None:
                served += 1
                reader.read_copy(key, size)
            elif reader.read_s3(key, size):
                reader.note_put(key)
                puts_us[key], copies = at, copies + 1
    for key, put_us in puts_us.items():
        end_us = min(passes * period_us, expires_us(put_us, rule.keep_days(int(sizes[key]))))
        held += int(sizes[key]) * (max(end_us, put_us + LEAST_US) - put_us)
    assert books.sum(axis=0)[[0, 1]].tolist() == [served, copies], f"seed {seed}"
    assert books.sum(axis=0)[4] == pytest.approx(held), f"seed {seed}"
