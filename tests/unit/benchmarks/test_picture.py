"""The picture of a burst shows what was recorded."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from benchmarks.picture import Get, Recording, Stay, draw

GETS = [Get(0, "s3", 50), Get(1, "s3", 60), Get(2, "lambda", 6), Get(9, "redis", 3), Get(20, "s3", 40)]
RECORDING = Recording(GETS, [Stay(1, 9)], [Stay(3, 8)], [Stay(8, 15)], [Stay(15, 17)])
PNG = b"\x89PNG\r\n\x1a\n"


def drawn(recording: Recording, path: Path) -> bytes:
    draw(recording, path)
    return path.read_bytes()


def test_same_recording_gives_the_same_small_picture(tmp_path: Path) -> None:
    once, again = (drawn(RECORDING, tmp_path / f"{name}.png") for name in ("once", "again"))

    assert once.startswith(PNG)
    assert once == again
    assert len(once) < 200_000


def test_another_latency_gives_another_picture(tmp_path: Path) -> None:
    slower = replace(RECORDING, gets=[*GETS[:-1], Get(20, "s3", 80)])

    assert drawn(slower, tmp_path / "slower.png") != drawn(RECORDING, tmp_path / "burst.png")
