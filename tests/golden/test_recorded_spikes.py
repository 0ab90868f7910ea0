"""Spikes of the thesis that were replayed against the local run: the simulator predicts them as well as it did.

`docs/evidence/measurements/simulator.md` has how they were recorded.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from burstcache_replay import measured as measuring
from burstcache_replay import recording
from burstcache_replay.evaluation import Evaluation, evaluate
from burstcache_replay.measured import Measured
from burstcache_replay.recording import Recorded
from burstcache_replay.timed import as_measured
from burstcache_sim.world.timings import THESIS_TIMINGS, Timings

pytestmark = pytest.mark.usefixtures("transitions_of_recorded_runs")

RECORDED = Path(__file__).parent / "data" / "spikes"
# Requests that the predicted tier served, and with functions and nodes that are ready when they were; the cache's bill
# against the predicted one [%].
FOUND = {
    "thesis-50": (149, 150, 1.2),
    "thesis-100": (246, 249, 4.1),
    "thesis-150": (286, 300, -4.3),
    "breakeven-50": (150, 150, 0.3),
    "breakeven-100": (248, 250, 0.1),
    "breakeven-150": (300, 300, 0.2),
    "thesis-300": (594, 597, 4.6),
    "breakeven-300": (599, 600, 0.0),
    "thesis-50-seed-2": (148, 150, 3.1),
    "breakeven-50-seed-2": (147, 150, 2.8),
}
# The same with the starts and boots of another one of them, which was recorded on the same machine.
REHEARSAL = "thesis-50-seed-2"
FOUND_REHEARSED = {
    "thesis-50": 147,
    "thesis-100": 246,
    "thesis-150": 300,
    "breakeven-50": 150,
    "breakeven-100": 250,
    "breakeven-150": 300,
    "thesis-300": 595,
    "breakeven-300": 599,
    "breakeven-50-seed-2": 148,
}


def recorded(name: str) -> tuple[Recorded, Measured]:
    measured = measuring.read(RECORDED / name)
    assert measured is not None
    return recording.read(RECORDED / name), measured


def evaluated(name: str, timings: Timings = THESIS_TIMINGS) -> Evaluation:
    return evaluate(*recorded(name), timings)


def test_every_recording_has_figures() -> None:
    assert {folder.name for folder in RECORDED.iterdir()} == set(FOUND)


@pytest.mark.parametrize(("name", "expected"), FOUND.items())
def test_a_recorded_spike_is_predicted(name: str, expected: tuple[int, int, float]) -> None:
    found = evaluated(name)

    same, as_timed, apart_pct = expected
    predicted_usd, measured_usd = found.usd(only_cache=True)
    assert (found.same_tier, found.same_tier_as_timed) == (same, as_timed)
    assert 100 * (measured_usd / predicted_usd - 1) == pytest.approx(apart_pct, abs=0.06)
    assert abs(apart_pct) <= 5
    assert found.same_tier + sum(found.causes.values()) == found.requests


@pytest.mark.parametrize(("name", "same"), FOUND_REHEARSED.items())
def test_a_recorded_spike_is_predicted_by_a_rehearsal(name: str, same: int) -> None:
    found = evaluated(name, as_measured(THESIS_TIMINGS, *recorded(REHEARSAL)))

    predicted_usd, measured_usd = found.usd(only_cache=True)
    assert found.same_tier == same
    assert abs(100 * (measured_usd / predicted_usd - 1)) <= 3.6
