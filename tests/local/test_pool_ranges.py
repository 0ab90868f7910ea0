"""A 5 GB object of which one per cent is hot: what its reader takes, and what the pool keeps of it."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from support.project import ROOT
from support.waiting import LIMIT_S

_MOST_MB = 300


@pytest.mark.slow
def test_a_reader_by_ranges_stays_small_and_only_hot_slices_are_stored() -> None:
    command = [sys.executable, "-m", "benchmarks.pool_ranges", "--rounds", "6"]

    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=LIMIT_S, check=False)

    assert run.returncode == 0, run.stderr
    figures = json.loads(run.stdout)
    assert figures["peak_mb"] < _MOST_MB  # reader and hub: they are one process
    assert figures["stored"] == figures["hot"]
    assert figures["pool"] > len(figures["hot"])
