"""A trace as a waterfall."""

from __future__ import annotations

from typing import Any

from burstcache_dashboard.waterfall import trace_of


def segment(id_: str, name: str, start_s: float, end_s: float, **rest: Any) -> dict[str, Any]:
    return {"trace_id": "1-2-3", "id": id_, "name": name, "start_time": start_s, "end_time": end_s, **rest}


def test_parts_stand_below_what_called_them_in_the_order_of_time() -> None:
    segments = [
        segment("c", "redis node-1", 0.003, 0.004, parent_id="b", fault=True),
        segment("d", "S3", 0.002, 0.003, parent_id="b", aws={"operation": "GetObject"}),
        segment("a", "burstcache-ProxyFunction-0123", 0.0, 0.01),
        segment("b", "## handler", 0.001, 0.009, parent_id="a", annotations={"tier": "redis"}),
    ]

    trace = trace_of(segments)

    assert trace.tier == "redis"
    assert [(bar.depth, bar.name, bar.is_failed) for bar in trace.bars] == [
        (0, "proxy", False),
        (1, "handler", False),
        (2, "S3 GetObject", False),
        (2, "redis node-1", True),
    ]


def test_what_goes_on_after_the_answer_is_cut_off_or_left_out() -> None:
    segments = [
        segment("a", "proxy", 0.0, 0.01),
        segment("b", "scheduler", 0.005, 3.0, parent_id="a"),
        segment("c", "cache", 0.5, 60.0, parent_id="b"),
    ]

    assert [(bar.name, bar.end_ms) for bar in trace_of(segments).bars] == [("proxy", 10.0), ("scheduler", 10.0)]
