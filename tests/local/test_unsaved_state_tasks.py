"""A database of state on Fargate without persistence, in the local run."""

from __future__ import annotations

from pathlib import Path

import pytest

from burstcache.state import state
from burstcache_local.cloud import LocalCloud
from support.roles import holder_of
from support.state_tasks import Tasks, options_for_tasks

pytestmark = [pytest.mark.slow, pytest.mark.weekly]


def test_a_database_without_persistence_starts_empty(tmp_path: Path) -> None:
    with LocalCloud(options_for_tasks(tmp_path, StateDatabases="scratch", StatePersistence="none")) as cloud:
        where, tasks = holder_of(cloud), Tasks(cloud)
        with state("scratch", **where) as client:
            client.set("written", "before it slept")
        tasks.await_sleep("scratch")

        with state("scratch", **where) as client:
            assert client.dbsize() == 0
