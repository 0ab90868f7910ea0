"""Routes that the proxy follows, and those that it ignores."""

from __future__ import annotations

from burstcache.core.rows import KeyRow, NodeRow
from burstcache.queries.routes import route_view

NOW_US = 1_785_542_400_000_000
ROW = KeyRow("0123", "cars.json", phase="lambda", epoch=7, tier="lambda", holder="req-1", deadline_at_us=NOW_US + 1)
ON_REDIS = KeyRow(
    "0123",
    "cars.json",
    phase="redis_running",
    epoch=7,
    tier="redis",
    node="node-2",
    generation=3,
    deadline_at_us=NOW_US + 1,
)


def test_route_to_a_cache_function_is_followed_until_it_expires() -> None:
    assert route_view(ROW, None, NOW_US).problem == ""
    assert route_view(ROW, None, NOW_US + 1).problem == "expired"


def test_route_to_redis_is_followed_only_while_its_node_runs_in_the_same_generation() -> None:
    def problem(**node: object) -> str:
        return route_view(ON_REDIS, NodeRow("node-2", **node), NOW_US).problem  # type: ignore[arg-type]

    assert problem(phase="running", generation=3) == ""
    assert problem(phase="running", generation=4) == "other_generation"
    assert problem(phase="stopping", generation=3) == "node_not_running"
