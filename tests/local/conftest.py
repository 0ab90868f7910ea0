"""The local cloud for tests that need all of it, and small functions of their own for those that do not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from burstcache_local.cloud import LocalCloud, LocalOptions
from support.policies import THESIS


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCloud]:
    """The project's template, with quick nodes that no key's idleness stops while a slow test needs them."""
    options = LocalOptions(
        boot_s=0.2,
        stop_s=0.2,
        run_dir=tmp_path_factory.mktemp("logs"),
        parameters=THESIS | {"PolicyOverrides": "redis_utilization_s=3600"},
    )
    with LocalCloud(options) as running:
        yield running


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder for a small template and its code."""
    (tmp_path / "src").mkdir()
    return tmp_path
