"""A trace as a waterfall."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import boto3
from botocore.stub import Stubber

from burstcache.core.policy import RecordedRequest
from burstcache.core.rows import KeyRow
from burstcache_dashboard.waterfall import Trace, newest_trace, trace_of

NOW_US = 1_785_542_400_000_000
MINUTES_US = 300_000_000  # of one question
READ_US = NOW_US - 10 * MINUTES_US
ROW = KeyRow("0123456789abcdef0123456789abcdef", "k", window=(RecordedRequest(READ_US, "a"),))


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


class XRay:
    """A deployed stack whose X-Ray gives prepared answers; any other question fails the test."""

    def __init__(self) -> None:
        self.client = boto3.client("xray", region_name="eu-west-1", aws_access_key_id="a", aws_secret_access_key="b")
        self.stubber = Stubber(self.client)

    def has(self, since_us: int, until_us: int, *ids: str, token: str = "", next_token: str = "") -> None:
        asked: dict[str, Any] = {
            "StartTime": datetime.fromtimestamp(since_us / 1e6, UTC),
            "EndTime": datetime.fromtimestamp(until_us / 1e6, UTC),
            "FilterExpression": f'annotation.key_hash = "{ROW.hash}"',
        }
        more = {"NextToken": next_token} if next_token else {}
        answer = {"TraceSummaries": [{"Id": id_} for id_ in ids], **more}
        self.stubber.add_response("get_trace_summaries", answer, asked | ({"NextToken": token} if token else {}))

    def gives(self, id_: str, *segments: dict[str, Any]) -> None:
        traces = [{"Id": id_, "Segments": [{"Id": each["id"], "Document": json.dumps(each)} for each in segments]}]
        self.stubber.add_response("batch_get_traces", {"Traces": traces if segments else []}, {"TraceIds": [id_]})

    def newest_trace(self) -> Trace | None:
        stack: Any = SimpleNamespace(client=lambda service: self.client)
        source: Any = SimpleNamespace(parameters={"Tracing": "Active"}, log_dir=None, stack=stack, region="eu-west-1")
        with self.stubber:
            found = newest_trace(source, ROW, NOW_US)
            self.stubber.assert_no_pending_responses()
        return found


def test_x_ray_is_asked_for_the_last_minutes_page_by_page_until_one_has_a_trace_of_the_key() -> None:
    xray = XRay()
    xray.has(NOW_US - MINUTES_US, NOW_US, next_token="more")
    xray.has(NOW_US - MINUTES_US, NOW_US, "1-1", "1-2", token="more", next_token="older ones")
    xray.gives("1-2", segment("a", "proxy", 1.0, 1.01))

    found = xray.newest_trace()

    assert found
    assert found.url.endswith("eu-west-1#xray:traces/1-2-3")
    assert found.bars[0].name == "proxy"


def test_x_ray_is_asked_for_the_minutes_around_the_newest_request_if_it_is_older() -> None:
    xray = XRay()
    xray.has(NOW_US - MINUTES_US, NOW_US)
    xray.has(READ_US - MINUTES_US, READ_US + MINUTES_US)

    assert xray.newest_trace() is None


def test_trace_that_x_ray_has_not_processed_yet_gives_way_to_one_before_it() -> None:
    xray = XRay()
    xray.has(NOW_US - MINUTES_US, NOW_US, "1-1", "1-2")
    xray.gives("1-2")
    xray.gives("1-1", segment("a", "proxy", 1.0, 1.01))

    assert xray.newest_trace() is not None


def test_a_line_that_is_still_written_is_left_aside(tmp_path: Path) -> None:
    read = segment("a", "proxy", 0.0, 0.01, annotations={"key_hash": ROW.hash, "tier": "redis"})
    torn = json.dumps({**read, "trace_id": "1-2-4"})[:-2]
    (tmp_path / "traces.jsonl").write_text(f"{json.dumps(read)}\n{torn}")
    source: Any = SimpleNamespace(parameters={"Tracing": "Active"}, log_dir=tmp_path)

    trace = newest_trace(source, ROW, NOW_US)

    assert trace is not None
    assert trace.id == "1-2-3"
