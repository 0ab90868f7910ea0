"""Spikes of the thesis that were replayed against the local run: the simulator predicts them as well as it did.

`docs/evidence/measurements.md` has how they were recorded.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from burstcache_replay import measured as measuring
from burstcache_replay import recording
from burstcache_replay.evaluation import Evaluation, evaluate
from burstcache_sim.world.timings import THESIS_TIMINGS

RECORDED = Path(__file__).parent / "data" / "spikes"
# Requests that the predicted tier served, and with functions and nodes that are ready when they were; the cache's bill
# against the predicted one [%].
FOUND = {
    "thesis-50": (149, 150, 1.2),
    "thesis-100": (246, 249, 4.1),
    "thesis-150": (286, 300, -4.3),
    "breakeven-50": (147, 150, 0.5),
    "breakeven-100": (248, 250, 0.1),
    "breakeven-150": (298, 300, 0.2),
    "thesis-300": (594, 597, 4.6),
    "breakeven-300": (598, 600, 0.0),
    "thesis-50-seed-2": (148, 150, 3.1),
    "breakeven-50-seed-2": (144, 147, 2.8),
}


def evaluated(name: str) -> Evaluation:
    measured = measuring.read(RECORDED / name)
    assert measured is not None
    return evaluate(recording.read(RECORDED / name), measured, THESIS_TIMINGS)


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
