"""A map of loads: how they are drawn, who wins where, and what the files have."""

from __future__ import annotations

import csv
from collections import Counter
from io import StringIO
from pathlib import Path

import numpy as np
import pytest

from burstcache.core.prices import price_sheet
from burstcache_sim.choose.map.cells import (
    COLUMNS,
    DUTIES,
    PER_S,
    RANGED_GB,
    VALUES_USD_PER_MILLION,
    Buy,
    Cell,
    all_loads,
    cells,
)
from burstcache_sim.choose.map.draw import (
    any_rival,
    coherent,
    letter_of,
    panels_of,
    summary_lines,
    table_csv,
    write_map,
)
from burstcache_sim.choose.map.loads import DAY_US, OBJECT_BYTES, RANGE_BYTES, Load, trace_of

TODAY = price_sheet("today-us-east-1")


def buy(usd: float, name: str = "s3-only") -> Buy:
    return Buy(name, "", usd, usd)


def test_a_load_is_drawn_alike_each_time_and_within_its_part_of_the_day() -> None:
    load = Load(0.1, 0.01, 1.0)

    one, two = trace_of(load), trace_of(load)

    assert one.arrivals_us.tolist() == two.arrivals_us.tolist()
    assert len(one) == load.requests == 864
    assert one.sample is None
    assert int(one.arrivals_us[-1]) < 0.01 * DAY_US
    assert one.sizes_bytes is not None
    assert set(one.sizes_bytes.tolist()) == {OBJECT_BYTES}


def test_of_a_large_load_a_sample_of_the_keys_is_drawn() -> None:
    load = Load(10.0, 1.0, 100.0)

    trace = trace_of(load)

    assert trace.sample is not None
    assert trace.sample.requests == load.requests == 8_640_000
    share = len(trace) / load.requests / trace.sample.rate
    assert 0.5 < share < 1  # without the most requested keys, which a sample by rank seldom has
    assert len(trace.keys) == round(load.objects * trace.sample.rate)


def test_a_load_of_large_objects_reads_aligned_ranges_and_a_popular_object_more_often() -> None:
    load = Load(RANGED_GB, 0.01, 5.0, by_ranges=True)

    trace = trace_of(load)

    assert trace.key_ids is not None
    assert trace.object_bytes is not None
    assert len(trace) == load.requests == 4_320
    numbers, starts = trace.range_places(len(trace.keys))
    ids = trace.key_ids
    assert (starts % RANGE_BYTES == 0).all()
    assert (starts[ids] + RANGE_BYTES <= trace.object_bytes).all()
    assert 64 << 20 <= trace.object_bytes.min() <= 72 << 20
    assert 900 << 20 <= trace.object_bytes.max() <= 1 << 30
    assert len(set(trace.keys)) == len(trace.keys) == pytest.approx(RANGED_GB * 1e9 / RANGE_BYTES, rel=0.05)
    by_object = np.bincount(numbers[ids])
    first, last = (by_object[list(np.unique(trace.objects)).index(name)] for name in ("0", str(load.objects - 1)))
    assert first / last == pytest.approx(load.objects**0.8, rel=0.4)


def test_of_a_large_load_by_ranges_a_sample_over_most_objects_is_drawn() -> None:
    trace = trace_of(Load(RANGED_GB, 1.0, 100.0, by_ranges=True))

    assert trace.sample is not None
    assert len(trace.keys) == 50
    assert len(set(trace.objects)) > 20


def test_ranges_of_large_objects_are_hits_of_slices() -> None:
    (cell,) = cells(TODAY, [Load(RANGED_GB, 0.1, 10.0, by_ranges=True)], [10.0])

    assert "256 MB of memory per reader" in cell.ours.note
    assert cell.outcome(cell.coherent) == "wins"
    waits_usd = 0.1 * 86_400 * 10 * 365 / 12 * 10 / 1e6
    assert cell.ours.usd < waits_usd / 2
    assert cell.any_rival.name != "range-memory:4096MB"


def test_the_map_has_a_column_of_large_objects_beside_its_small_ones() -> None:
    loads = all_loads()

    assert len(loads) == len(set(loads)) == 96
    assert [(load.duty, load.per_s) for load in loads if load.by_ranges] == [
        (duty, per_s) for per_s in PER_S for duty in DUTIES
    ]


def test_a_tenth_and_half_a_dollar_decide() -> None:
    def outcome(ours: float, rival: float) -> str:
        return Cell(Load(1, 1, 1), 0, buy(ours), buy(rival), buy(rival)).outcome(buy(rival))

    assert [outcome(10, rival) for rival in (11.4, 11.6, 8.7, 8.5)] == ["ties", "wins", "ties", "loses"]
    assert outcome(0, 0.4) == "ties"


def test_a_cell_has_the_best_of_each_kind_and_nobody_better_is_left_out() -> None:
    (cell,) = cells(TODAY, [Load(0.3, 0.01, 10.0)], [10.0])

    assert cell.ours.name == "burstcache"
    assert cell.any_rival.usd <= cell.coherent.usd
    assert cell.outcome(cell.coherent) == "wins"
    requests = 0.01 * 86_400 * 10 * 365 / 12
    assert cell.ours.usd < cell.ours.bill_usd + requests * 10 / 1e6


@pytest.mark.slow
def test_table_and_pictures_have_every_cell(tmp_path: Path) -> None:
    every = [
        Cell(load, value, buy(1, "burstcache"), buy(3), buy(0.5, "reader-memory+ec2:t4g.nano"))
        for value in VALUES_USD_PER_MILLION
        for load in all_loads()
    ]

    written = write_map(every, tmp_path)

    rows = list(csv.DictReader(StringIO(table_csv(every))))
    assert len(rows) == len(every)
    assert Counter(row["reads"] for row in rows) == {"objects": 84 * 4, "ranges": 12 * 4}
    assert {row["against_coherent"] for row in rows} == {"wins"}
    assert {row["against_any"] for row in rows} == {"ties"}
    assert {path.name for path in written} == {
        "map.csv", "map-coherent.svg", "map-coherent.png", "map-any-age.svg", "map-any-age.png"
    }  # fmt: skip
    assert all(path.stat().st_size for path in written)
    fields = panels_of(every, any_rival)[PER_S[0], VALUES_USD_PER_MILLION[0]]
    assert np.shape(fields) == (len(DUTIES), len(COLUMNS), 2)
    assert fields[0][0] == ("ties", "N+")
    assert panels_of(every, coherent)[PER_S[0], VALUES_USD_PER_MILLION[0]][0][0] == ("wins", "B")
    assert summary_lines(every)[1].endswith("objects 84 won, 0 tied, 0 lost; ranges 12 won, 0 tied, 0 lost")


@pytest.mark.parametrize(
    ("name", "letter"),
    [
        ("s3-only", "S"), ("s3-express-all", "X"), ("reader-memory:64MB", "M"), ("reader-memory-confirmed:64MB", "M"),
        ("reader-memory+s3-express", "X+"), ("ec2:t4g.nano", "N"), ("reader-memory+fargate-spot:1GB", "N+"),
        ("efs", "F"),
    ],
)  # fmt: skip
def test_a_rival_has_a_letter(name: str, letter: str) -> None:
    assert letter_of(name) == letter
