"""The waterfall of a trace."""

from __future__ import annotations

from typing import Any

from benchmarks.trace import rows, traces_by_tier

_PROXY = {
    "trace_id": "1",
    "id": "a",
    "name": "burstcache-ProxyFunction-0A1B",
    "start_time": 10.0,
    "end_time": 10.3,
}
_HANDLER = {"trace_id": "1", "id": "b", "parent_id": "a", "name": "## handler", "start_time": 10.1, "end_time": 10.2}


def _segment(**fields: Any) -> dict[str, Any]:
    return {"trace_id": "1", "id": "x", "parent_id": "b", "start_time": 10.1, "end_time": 10.2, **fields}


def test_a_call_stands_below_its_caller_with_the_time_since_the_front() -> None:
    relay = _segment(id="c", name="relay", start_time=10.15)
    cache = _segment(id="d", parent_id="c", name="burstcache-CacheFunction-0A1B", start_time=10.16, fault=True)

    found = rows([cache, relay, _HANDLER, _PROXY])

    assert [(row.depth, row.label, row.kind) for row in found] == [
        (0, "proxy", "function"),
        (1, "handler", "handler"),
        (2, "relay", "relay"),
        (3, "cache", "function"),
    ]
    assert round(found[2].start_ms) == 150
    assert [row.label for row in found if row.is_failed] == ["cache"]


def test_of_a_life_only_its_beginning_is_drawn() -> None:
    cache = _segment(id="c", name="burstcache-CacheFunction-0A1B", end_time=900.0)
    claim = _segment(id="d", parent_id="c", name="dynamodb", aws={"operation": "UpdateItem"}, end_time=10.25)
    heartbeat = _segment(id="e", parent_id="c", name="states", start_time=25.0, end_time=25.1)

    found = rows([_PROXY, _HANDLER, cache, claim, heartbeat])

    assert [row.label for row in found if row.depth > 1] == ["cache", "dynamodb UpdateItem"]
    assert [row.label for row in found if row.goes_on] == ["proxy", "cache"]


def test_a_read_is_found_by_the_tier_that_answered_it() -> None:
    answer = _HANDLER | {"annotations": {"tier": "redis"}}

    assert traces_by_tier([_PROXY, answer]) == {"redis": [_PROXY, answer]}
