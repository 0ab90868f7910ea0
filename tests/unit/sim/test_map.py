"""A map of loads: how they are drawn, who wins where, and what the files have."""

from __future__ import annotations

import csv
from io import StringIO
from pathlib import Path

import numpy as np
import pytest

from burstcache.core.prices import price_sheet
from burstcache_sim.choose.map.cells import DUTIES, PER_S, VALUES_USD_PER_MILLION, WORKING_SETS_GB, Buy, Cell, cells
from burstcache_sim.choose.map.draw import (
    any_rival,
    coherent,
    letter_of,
    panels_of,
    summary_lines,
    table_csv,
    write_map,
)
from burstcache_sim.choose.map.loads import DAY_US, OBJECT_BYTES, Load, trace_of

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
    assert len(trace.keys) == round(load.keys * trace.sample.rate)


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
        Cell(Load(gb, duty, per_s), value, buy(1, "burstcache"), buy(3), buy(0.5, "reader-memory+ec2:t4g.nano"))
        for value in VALUES_USD_PER_MILLION
        for per_s in PER_S
        for duty in DUTIES
        for gb in WORKING_SETS_GB
    ]

    written = write_map(every, tmp_path)

    rows = list(csv.DictReader(StringIO(table_csv(every))))
    assert len(rows) == len(every)
    assert {row["against_coherent"] for row in rows} == {"wins"}
    assert {row["against_any"] for row in rows} == {"ties"}
    assert {path.name for path in written} == {
        "map.csv", "map-coherent.svg", "map-coherent.png", "map-any-age.svg", "map-any-age.png"
    }  # fmt: skip
    assert all(path.stat().st_size for path in written)
    fields = panels_of(every, any_rival)[PER_S[0], VALUES_USD_PER_MILLION[0]]
    assert np.shape(fields) == (len(DUTIES), len(WORKING_SETS_GB), 2)
    assert fields[0][0] == ("ties", "N+")
    assert panels_of(every, coherent)[PER_S[0], VALUES_USD_PER_MILLION[0]][0][0] == ("wins", "B")
    assert summary_lines(every)[1].endswith("84 won, 0 tied, 0 lost")


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
