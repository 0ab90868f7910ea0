"""A stage of its own per test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.machine_stage import MachineStage


@pytest.fixture
def stage() -> Iterator[MachineStage]:
    made = MachineStage()
    yield made
    made.close()
