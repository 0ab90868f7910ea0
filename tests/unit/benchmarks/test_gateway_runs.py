"""The picture of a gateway's runs shows what was measured."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.gateway_runs import GATEWAY, STRAIGHT, Comparison, Run, draw, figure_of
from burstcache_sim.report.drawing import drawing

COMPARED = [
    Comparison(
        name,
        {
            STRAIGHT: [Run(3.0, 48_000_000), Run(2.5, 48_000_000), Run(2.7, 48_000_000)],
            GATEWAY: [Run(3.5, 49_000_000), Run(1.2, 1_000_000), Run(slowest_s, 0)],
        },
    )
    for name, slowest_s in (("polars", 1.5), ("Node", 6.0))
]
PNG = b"\x89PNG\r\n\x1a\n"


@pytest.mark.slow
def test_same_runs_give_the_same_small_picture(tmp_path: Path) -> None:
    pictures = []
    for name in ("once.png", "again.png"):
        draw(COMPARED, tmp_path / name)
        pictures.append((tmp_path / name).read_bytes())

    assert pictures[0].startswith(PNG)
    assert pictures[0] == pictures[1]
    assert len(pictures[0]) < 200_000


def test_every_run_has_a_bar_and_a_figure_of_its_seconds_and_its_bytes() -> None:
    with drawing():
        panels = figure_of(COMPARED).axes

    runs = [[run for way in (STRAIGHT, GATEWAY) for run in compared.runs[way]] for compared in COMPARED]
    seconds = [[run.seconds for run in each] for each in runs]
    megabytes = [[run.s3_bytes / 1e6 for run in each] for each in runs]
    expected = [seconds[0], megabytes[0], seconds[1], megabytes[1]]
    assert [[bar.get_width() for bar in panel.patches] for panel in panels] == expected  # type: ignore[attr-defined]
    assert [[float(text.get_text()) for text in panel.texts] for panel in panels] == expected
    assert [panel.get_title(loc="left") for panel in panels] == [
        "polars: seconds",
        "polars: MB from S3",
        "Node: seconds",
        "Node: MB from S3",
    ]


def test_every_text_is_within_its_panel() -> None:
    with drawing():
        figure = figure_of(COMPARED)
        figure.draw_without_rendering()

    for panel in figure.axes:
        inside = panel.get_window_extent()
        for text in panel.texts:
            assert text.get_window_extent().x1 <= inside.x1, text.get_text()
