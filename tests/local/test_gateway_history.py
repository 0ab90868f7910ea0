"""A short history through a gateway of two processes: no read is older than a write that was answered before it."""

from __future__ import annotations

import pytest

from consistency.bounds import violations
from consistency.gateway import record

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("has_faults", [pytest.param(False, marks=pytest.mark.weekly), True])
def test_a_read_through_any_process_shows_the_writes_before_it(has_faults: bool) -> None:
    history, faults = record(operations=600, seed=3, has_faults=has_faults)

    answered = [each for each in history if each.is_known]
    assert len(answered) > 400
    assert bool(faults) == has_faults
    assert list(violations(history, stale_us=lambda _: 0, forward=lambda _: not has_faults)) == []
