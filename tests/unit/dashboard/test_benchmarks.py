"""The page's view of benchmarks, from the files their processes leave."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from burstcache_dashboard.benchmarks import OFFERS, PROJECT, Benchmarks, Run


def ended(folder: Path, *, exit_code: int = 0, output: str = "", leaves: tuple[str, ...] = ()) -> Run:
    process = subprocess.Popen([sys.executable, "-ISc", f"raise SystemExit({exit_code})"])
    process.wait()
    (folder / "output.txt").write_text(output)
    for name in leaves:
        (folder / name).write_text('{"rows": []}')
    return Run(process, folder, began_ms=1)


def test_a_running_benchmark_says_its_newest_step(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-ISc", "input()"], stdin=subprocess.PIPE) as process:
        (tmp_path / "output.txt").write_text("2026-11-22\n1/3 first\n2/3 second\n")

        shown = Run(process, tmp_path, began_ms=1).fields()

        process.communicate(b"\n")
    assert shown == {"phase": "running", "beganMs": 1, "done": 2, "steps": 3, "what": "second"}


def test_one_that_leaves_table_and_picture_is_done(tmp_path: Path) -> None:
    shown = ended(tmp_path, leaves=("table.json", "picture.png")).fields()

    assert shown == {"phase": "done", "beganMs": 1, "table": {"rows": []}}


@pytest.mark.parametrize(("exit_code", "leaves"), [(0, ("table.json",)), (3, ("table.json", "picture.png"))])
def test_one_that_leaves_less_or_fails_shows_its_last_lines(
    tmp_path: Path, exit_code: int, leaves: tuple[str, ...]
) -> None:
    output = "\n".join(f"line {number}" for number in range(20)) + "\n4/9 a step\nValueError: bad\n"

    shown = ended(tmp_path, exit_code=exit_code, output=output, leaves=leaves).fields()

    assert (shown["phase"], shown["exitCode"]) == ("failed", exit_code)
    assert shown["lines"] == [*(f"line {number}" for number in range(9, 20)), "ValueError: bad"]


def test_every_benchmark_that_is_offered_exists() -> None:
    assert Benchmarks().offers == OFFERS
    assert all((PROJECT / "benchmarks" / f"{offer.name}.py").exists() for offer in OFFERS)


def test_without_a_clone_there_is_nothing_to_offer(tmp_path: Path) -> None:
    assert Benchmarks(project=tmp_path).offers == ()
