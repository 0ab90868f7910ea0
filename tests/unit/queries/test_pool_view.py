"""View of the pool and its cost."""

from __future__ import annotations

from fractions import Fraction

import pytest

from burstcache.adapters.pool_table import PoolRows
from burstcache.core.messages.pool_control import HubTotals, KnownHub
from burstcache.core.pool.costs import MemberPrice
from burstcache.core.pool.retention import HubStatus, MemberStatus, PoolChoice, PoolState, PoolTotals, ReclaimHistory
from burstcache.core.pool.slices import Redundancy
from burstcache.queries.pool import pool_view
from burstcache_cli.show import pool_text

_PRICE = MemberPrice(Fraction(2), Fraction(1, 1_000_000), Fraction(1, 10_000), Fraction(1, 1_000))
_NOW_US = 1_763_632_800_000_000


def _rows() -> PoolRows:
    address = KnownHub(id="hub-1", host="10.0.0.5", port=4_000, token="ab" * 32, certificate="")
    seen = HubTotals(requests=100, hits=75, stored_bytes=3_000_000, invocations=10, served_ms=5_000)
    live = HubStatus(address, _NOW_US - 1_000_000, _NOW_US, seen, {"pool-0": ("a", _NOW_US)})
    gone = HubStatus(KnownHub(**{**address, "id": "hub-2"}), _NOW_US - 600_000_000, _NOW_US, seen)
    choice = PoolChoice(Redundancy(10, 2), (Redundancy(10, 1),), 60, 300, 0.99, ("because",), _NOW_US)
    totals = PoolTotals(requests=1, hits=1, warm_ups=1_000, warm_ms=2_000, environments=8)
    return PoolRows(
        PoolState(7, 1, _NOW_US + 1, 0, _NOW_US, choice, totals),
        {"pool-0": MemberStatus("a", "", _NOW_US, 2, 2_000_000), "pool-1": MemberStatus("b", is_silent=True)},
        ReclaimHistory({60: {0: 119, 6: 1}}, ((_NOW_US // 1_000_000, 6),)),
        (live, gone),
    )


def test_hubs_that_are_gone_are_not_shown_but_what_they_saw_counts() -> None:
    view = pool_view(_rows(), _PRICE, _NOW_US)

    assert [(hub.hub, hub.members) for hub in view.hubs] == [("hub-1", 1)]
    assert (view.requests, view.hits, view.written_bytes) == (201, 151, 6_000_000)


def test_bill_has_warm_ups_serving_and_environments() -> None:
    bill = pool_view(_rows(), _PRICE, _NOW_US).bill

    assert bill.warm_up_usd == pytest.approx(1_000e-6 + 2 * 2e-4)
    assert bill.serving_usd == pytest.approx(20e-6 + 10 * 2e-4)
    assert bill.environments_usd == pytest.approx(8 * 2e-3)
    assert bill.usd == pytest.approx(bill.warm_up_usd + bill.serving_usd + bill.environments_usd)


def test_pool_past_its_deadline_is_kept_by_nobody() -> None:
    assert pool_view(_rows(), _PRICE, _NOW_US).execution_name == "pool-7-1"
    assert pool_view(_rows(), _PRICE, _NOW_US + 1).execution_name == ""


def test_pool_is_shown_with_its_choice_and_the_reasons() -> None:
    lines = pool_text(pool_view(_rows(), _PRICE, _NOW_US)).splitlines()

    assert lines == [
        "kept by   pool-7-1",
        "invoked   2025-11-20T10:00:00Z",
        "hubs      hub-1 (reported 2025-11-20T09:59:59Z)",
        "members   2 invoked, 2 MB stored",
        "silent    pool-1",
        "slices    201 asked for, 75% of them found; 6 MB written",
        "reclaims  0.05 a minute in 120 min; last 2025-11-20T10:00:00Z",
        "chunks    10+2 (before: 10+1); invoked every 1 min, backup every 5 min",
        "          because",
        "bill      0.019420 USD: warm-up 0.001400, serving 0.002020, new environments 0.016000; hubs and control apart",
    ]


def test_pool_that_was_never_used_says_so() -> None:
    assert pool_text(pool_view(PoolRows(), _PRICE, _NOW_US)) == "the pool has not been used yet"
