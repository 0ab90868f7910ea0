"""Fixtures of the local tests (conftest): the whole local cloud, and a folder for tests that bring a small template."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from burstcache_local.cloud import LocalCloud, LocalOptions
from support.policies import THESIS

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCloud]:
    """Run the project's template with nodes that boot quickly and that idle keys do not stop during a slow test."""
    options = LocalOptions(
        boot_s=1.0,  # long enough for a read to meet the cache function first, on a busy machine too
        stop_s=0.2,
        run_dir=tmp_path_factory.mktemp("logs"),
        parameters=THESIS | {"PolicyOverrides": "redis_utilization_s=3600"},
    )
    with LocalCloud(options) as running:
        yield running


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Start one browser for all tests of a module."""
    from support.browser import chromium  # importing Playwright takes a quarter of a second, and few tests need it

    with chromium() as running:
        yield running


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Create a folder for a small template and its code."""
    (tmp_path / "src").mkdir()
    return tmp_path
