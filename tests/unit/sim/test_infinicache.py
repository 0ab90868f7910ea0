"""InfiniCache's evaluation reproduced: formulas, a trace with its statistics, the settings, files."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from burstcache_sim.bill.locality import locality_of
from burstcache_sim.infinicache import dallas, published
from burstcache_sim.infinicache.formulas import formulas_table, overtakes_gets_per_h
from burstcache_sim.infinicache.pictures import infinicache_pictures
from burstcache_sim.infinicache.replays import Replay, replay, replays_table
from burstcache_sim.traces.trace import Trace
from burstcache_sim.units import US_PER_H

LARGE = dallas.large_objects()


def of_hours(trace: Trace, hours: int) -> Trace:
    kept = trace.arrivals_us < hours * US_PER_H
    assert trace.key_ids is not None
    assert trace.sizes_bytes is not None
    return replace(
        trace,
        arrivals_us=trace.arrivals_us[kept],
        key_ids=trace.key_ids[kept],
        sizes_bytes=trace.sizes_bytes[kept],
    )


@pytest.fixture(scope="module")
def replays() -> list[Replay]:
    trace = of_hours(LARGE, 3)
    return [replay(setting, trace, "poisson:2.28") for setting in published.SETTINGS[1:]]


def test_every_formula_gives_what_the_paper_prints() -> None:
    ratios = {row[0]: float(row[-1]) for row in formulas_table().rows}

    assert len(ratios) == 17
    assert all(ratio == pytest.approx(1, abs=0.08) for ratio in ratios.values()), ratios


def test_infinicache_costs_more_than_elasticache_from_312_000_gets_an_hour() -> None:
    assert overtakes_gets_per_h() == pytest.approx(published.OVERTAKES_GETS_PER_H, rel=0.01)


@pytest.mark.slow
def test_the_trace_has_the_statistics_of_table_1() -> None:
    locality = locality_of(LARGE, object_bytes=1, period_us=dallas.HOURS * US_PER_H)
    misses = locality.misses(published.ELASTICACHE_BYTES, repeats=Fraction(1))

    assert len(LARGE) == 750 * 50
    assert locality.stored_bytes == pytest.approx(1_036e9, rel=1e-3)
    assert locality.sizes_bytes.min() >= dallas.LARGE_BYTES
    assert 100 * (1 - float(misses) / len(LARGE)) == pytest.approx(65.9, abs=0.5)


def test_as_many_large_objects_are_read_again_within_an_hour_as_in_the_paper() -> None:
    assert LARGE.key_ids is not None
    order = np.lexsort((LARGE.arrivals_us, LARGE.key_ids))
    is_again = np.diff(LARGE.key_ids[order]) == 0
    gaps_us = np.diff(LARGE.arrivals_us[order])[is_again]

    assert 0.37 <= (gaps_us < US_PER_H).mean() <= 0.46


def test_all_objects_contain_the_large_ones() -> None:
    everything = dallas.all_objects()

    assert len(everything) == 3_654 * 50
    assert everything.sizes_bytes is not None
    assert int((everything.sizes_bytes >= dallas.LARGE_BYTES).sum()) >= len(LARGE)


@pytest.mark.slow
def test_backup_costs_and_saves_objects(replays: list[Replay]) -> None:
    with_backup, without = replays

    assert with_backup.usd > without.usd
    assert with_backup.run.total.losses < without.run.total.losses
    assert with_backup.availability_pct > without.availability_pct


@pytest.mark.slow
def test_the_table_shows_ours_next_to_what_is_printed(replays: list[Replay]) -> None:
    table = replays_table(replays)

    assert [row[4] for row in table.rows if row[2] == "50 h [USD]"] == ["16.51", "5.41"]
    assert all(row[3] for row in table.rows)
    assert "synthetic" in table.note


@pytest.mark.slow
def test_pictures_are_written(replays: list[Replay], tmp_path: Path) -> None:
    files = infinicache_pictures(replays, tmp_path)

    assert [file.name for file in files] == ["figure-13a.png", "figure-13.png", "figure-14.png", "figure-17.png"]
    assert all(file.stat().st_size > 10_000 for file in files)
