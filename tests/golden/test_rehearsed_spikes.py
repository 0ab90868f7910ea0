"""Spikes of the thesis that were replayed after a rehearsal: the simulator predicts them with what that measured.

`docs/evidence/measurements/simulator.md` has how they were recorded.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from burstcache.core.parameters import US_PER_S
from burstcache_replay import measured as measuring
from burstcache_replay import recording
from burstcache_replay.evaluation import evaluate
from burstcache_replay.measured import Measured
from burstcache_replay.recording import Recorded
from burstcache_replay.timed import as_measured
from burstcache_sim.world.timings import THESIS_TIMINGS

pytestmark = pytest.mark.usefixtures("transitions_of_recorded_runs")

RECORDED = Path(__file__).parent / "data" / "rehearsed"
REHEARSALS = {"": "rehearsal", "5": "rehearsal-seed-5"}  # by seed; the first one's came before seeds 1 and 2
STOPS_IN_S = 25  # as the local run was told
# Requests that the predicted tier served, and with functions and nodes that are ready when they were; the cache's bill
# against the predicted one [%].
FOUND = {
    "thesis-50": (146, 150, 3.3),
    "breakeven-50": (149, 149, 0.1),
    "thesis-100": (248, 250, 1.9),
    "breakeven-100": (246, 250, 0.1),
    "thesis-150": (298, 300, 1.3),
    "breakeven-150": (298, 299, 0.1),
    "thesis-50-seed-2": (147, 150, 4.0),
    "breakeven-50-seed-2": (148, 150, 2.1),
    "thesis-50-seed-5": (149, 150, 1.3),
    "breakeven-50-seed-5": (149, 150, 0.7),
    "thesis-100-seed-5": (250, 250, 0.9),
    "breakeven-100-seed-5": (250, 250, 0.0),
    "thesis-150-seed-5": (299, 299, 0.8),
    "breakeven-150-seed-5": (299, 299, 0.0),
}


def recorded(name: str) -> tuple[Recorded, Measured]:
    measured = measuring.read(RECORDED / name)
    assert measured is not None
    return recording.read(RECORDED / name), measured


def test_every_recording_has_figures() -> None:
    assert {folder.name for folder in RECORDED.iterdir()} == {*FOUND, *REHEARSALS.values()}


@pytest.mark.parametrize(("name", "expected"), FOUND.items())
def test_a_spike_is_predicted_with_the_starts_of_its_rehearsal(name: str, expected: tuple[int, int, float]) -> None:
    timings = replace(THESIS_TIMINGS, redis_stop_us=STOPS_IN_S * US_PER_S)
    rehearsal = REHEARSALS.get(name.partition("-seed-")[2], REHEARSALS[""])

    found = evaluate(*recorded(name), as_measured(timings, *recorded(rehearsal)))

    same, as_timed, apart_pct = expected
    predicted_usd, measured_usd = found.usd(only_cache=True)
    assert (found.same_tier, found.same_tier_as_timed) == (same, as_timed)
    assert 100 * (measured_usd / predicted_usd - 1) == pytest.approx(apart_pct, abs=0.06)
