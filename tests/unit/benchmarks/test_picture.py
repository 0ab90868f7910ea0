"""The picture of a burst shows what was recorded."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.picture import Get, Recording, Stay, draw, figure_of
from burstcache_sim.report.drawing import drawing

GETS = [Get(0, "s3", 50), Get(1, "s3", 60), Get(2, "lambda", 6), Get(9, "redis", 3), Get(20, "s3", 40)]
RECORDING = Recording(GETS, [Stay(1, 9)], [Stay(3, 8)], [Stay(8, 15)], [Stay(15, 17)])
PNG = b"\x89PNG\r\n\x1a\n"


def drawn(recording: Recording, path: Path) -> bytes:
    draw(recording, path)
    return path.read_bytes()


def dots(recording: Recording) -> set[tuple[float, float]]:
    with drawing():
        axes = figure_of(recording).axes[0]
    return {(at_s, ms) for line in axes.lines for at_s, ms in np.asarray(line.get_xydata()).tolist()}


@pytest.mark.slow
def test_same_recording_gives_the_same_small_picture(tmp_path: Path) -> None:
    once, again = (drawn(RECORDING, tmp_path / f"{name}.png") for name in ("once", "again"))

    assert once.startswith(PNG)
    assert once == again
    assert len(once) < 200_000


def test_every_get_is_a_dot_at_its_latency() -> None:
    slower = replace(RECORDING, gets=[*GETS[:-1], Get(20, "s3", 80)])

    assert dots(slower) == {*dots(RECORDING) - {(20, 40)}, (20, 80)}


@pytest.mark.parametrize("stop_s", [0.1, 1.3, 1.4])
def test_a_label_is_within_its_bar_or_outside_of_all(stop_s: float) -> None:
    with drawing():
        figure = figure_of(replace(RECORDING, node_stops=[Stay(15, 15 + stop_s)]))
        figure.draw_without_rendering()

    _, lanes = figure.axes
    bars = [bar.get_window_extent() for bar in lanes.patches]
    for label in lanes.texts:
        text = label.get_window_extent()
        met = [bar for bar in bars if bar.overlaps(text)]
        assert all(bar.x0 <= text.x0 and text.x1 <= bar.x1 for bar in met), label.get_text()
