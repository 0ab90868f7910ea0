"""Records of `make fuzz`: requests count only for the code they were sent to."""

from __future__ import annotations

import json
import sys
from collections import Counter
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fuzz import __main__ as fuzz


class Fuzzing:
    """Answers every request with 200."""

    def __init__(self, cloud: object) -> None:
        self.tried: Any = SimpleNamespace(statuses=Counter(), tiers=Counter(), clear=lambda: None)

    def run(self, requests: int, *, number: int) -> None:
        self.tried.statuses = Counter({200: requests})

    def close(self) -> None:
        pass


@pytest.fixture(autouse=True)
def _no_cloud(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(fuzz, "_KEPT", tmp_path / "fuzz.json")
    # Neither is imported, with what each brings.
    cloud = SimpleNamespace(LocalCloud=nullcontext, LocalOptions=SimpleNamespace)
    monkeypatch.setitem(sys.modules, "burstcache_local.cloud", cloud)
    monkeypatch.setitem(sys.modules, "support.fuzzing", SimpleNamespace(Fuzzing=Fuzzing))


def pieces(monkeypatch: pytest.MonkeyPatch, wanted: int) -> int:
    """Return in how many pieces a run has sent what is kept."""
    monkeypatch.setattr("sys.argv", ["fuzz", str(wanted)])
    assert fuzz.main() == 0
    return int(json.loads(fuzz._KEPT.read_text())["pieces"])


def test_a_run_goes_on_where_it_was_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    pieces(monkeypatch, 2_000)
    kept = json.loads(fuzz._KEPT.read_text())
    fuzz._KEPT.write_text(json.dumps(kept | {"pieces": 7}))

    assert pieces(monkeypatch, 3_000) == 8


def test_what_was_sent_to_other_code_counts_as_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    pieces(monkeypatch, 2_000)
    monkeypatch.setattr(fuzz, "code_of", lambda **_: "changed")

    assert pieces(monkeypatch, 3_000) == 3
