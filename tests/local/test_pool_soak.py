"""The soak of the pool in its short form: mixed operations while members are reclaimed and killed and hubs restart."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.pool_soak import soak


@pytest.mark.weekly
def test_no_byte_is_wrong_and_no_operation_fails_whatever_befalls_members_and_hubs() -> None:
    figures: dict[str, Any] = soak(count=200, seed=1, largest_bytes=20_000_000)

    assert figures["problems"] == []
    assert all(figures[kind] for kind in ("put", "get", "delete", "hits", "s3", "hub", "reclaimed", "killed"))
    requests, predicted = figures["bill"]["serve_requests"]
    assert abs(requests - predicted) <= 0.05 * predicted
