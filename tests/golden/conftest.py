"""What the tests of recorded spikes share."""

from __future__ import annotations

import pytest

from burstcache.core import worth


@pytest.fixture
def transitions_of_recorded_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Decide as the recorded stacks did, whose runs took five transitions and two for each further look."""
    monkeypatch.setattr(worth, "_RUN_TRANSITIONS", 5)
    monkeypatch.setattr(worth, "_LOOK_TRANSITIONS", 2)
