"""Fixtures of the golden tests (conftest): the constants under which the spikes were recorded."""

from __future__ import annotations

import pytest

from burstcache.core import worth


@pytest.fixture
def transitions_of_recorded_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Decide as the recorded stacks did. Their runs took five transitions, and two for each further check."""
    monkeypatch.setattr(worth, "_RUN_TRANSITIONS", 5)
    monkeypatch.setattr(worth, "_CHECK_TRANSITIONS", 2)
