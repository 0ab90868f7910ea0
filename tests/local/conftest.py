"""The local cloud for tests that need all of it, and small functions of their own for those that do not."""

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
    """The project's template, with quick nodes that no key's idleness stops while a slow test needs them."""
    options = LocalOptions(
        boot_s=0.2,
        stop_s=0.2,
        run_dir=tmp_path_factory.mktemp("logs"),
        parameters=THESIS | {"PolicyOverrides": "redis_utilization_s=3600"},
    )
    with LocalCloud(options) as running:
        yield running


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One browser for all tests of a module."""
    from support.browser import chromium  # imports a quarter of a second of Playwright, which few tests need

    with chromium() as running:
        yield running


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder for a small template and its code."""
    (tmp_path / "src").mkdir()
    return tmp_path
