"""The parts of a task's boot."""

from __future__ import annotations

import pytest

from benchmarks.task_boot import PARTS, parts_of


def test_the_parts_of_a_boot_add_up_to_the_time_from_the_first_request_to_the_first_hit() -> None:
    moments = dict(zip(PARTS, (110.0, 111.0, 113.0, 113.5, 113.75, 115.0), strict=True))

    parts = parts_of(moments, 100.0)

    assert parts == {"start": 10.0, "task": 1.0, "running": 2.0, "ready": 0.5, "routed": 0.25, "hit": 1.25}
    assert sum(parts.values()) == pytest.approx(15.0)
