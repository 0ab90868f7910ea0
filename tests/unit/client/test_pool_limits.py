"""The break-even time between two reads of a slice, for both ways to a stack's pool."""

from __future__ import annotations

import logging
import math

import pytest

from burstcache import logs
from burstcache.access import ExpressAccess
from burstcache.client.pool_limits import pool_pays_within_s
from burstcache.core.pool.slices import Redundancy
from burstcache.settings.pool import PoolAccess

_ACCESS = PoolAccess("member", "control", demands_tls=True, memory_mb=1536, hub="none")


@pytest.mark.parametrize(
    ("usd_per_million", "within_s", "warnings"), [("100", math.inf, 0), ("0", 0.0, 1)], ids=["always", "never"]
)
def test_the_pool_pays_if_a_saved_wait_is_worth_its_invocations(
    usd_per_million: str,
    within_s: float,
    warnings: int,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    log = logs.OnceLog(logging.getLogger("burstcache"))
    monkeypatch.setattr("burstcache.client.pool_limits.logger", lambda: log)
    worth = ExpressAccess(hit_value_usd_per_million=usd_per_million, region="eu-central-1")

    assert pool_pays_within_s(_ACCESS, worth, Redundancy(10, 2)) == within_s
    assert len(caplog.messages) == warnings
