"""The front door under a few hundred requests of every kind; `make fuzz` sends a hundred thousand."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from burstcache_local.cloud import LocalCloud, LocalOptions
from support.fuzzing import Fuzzing
from support.policies import THESIS

_REQUESTS = 400


@pytest.fixture
def cloud(tmp_path: Path) -> Iterator[LocalCloud]:
    """A local run that takes writes."""
    with LocalCloud(
        LocalOptions(boot_s=0.2, stop_s=0.2, run_dir=tmp_path, parameters={**THESIS, "Writes": "iam"})
    ) as run:
        yield run


@pytest.mark.weekly
def test_every_request_is_answered_as_described_or_refused(cloud: LocalCloud) -> None:
    with closing(Fuzzing(cloud)) as fuzzing:
        fuzzing.run(_REQUESTS, number=1)

    assert fuzzing.tried.statuses.total() >= _REQUESTS
    assert {200, 206, 304, 400, 404, 405, 412, 416} <= fuzzing.tried.statuses.keys()
