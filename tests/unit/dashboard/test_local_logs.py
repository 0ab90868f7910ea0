"""Measurements of a local run from its logs."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

import pytest

from burstcache import metrics
from burstcache.metrics import emf_line
from burstcache_dashboard.local_logs import LocalLogs
from burstcache_dashboard.measured import FunctionUse
from support.clock import ManualClock

_PROXY_LOG = "burstcache-ProxyFunction-0123456789AB.log"


def request(at_ms: int, path: str, **changes: object) -> str:
    line = {"at": at_ms, "method": "GET", "path": path, "query": "", "status": 200, "bytes": 100, "latency_ms": 10.0}
    return json.dumps({**line, "tier": "s3", **changes}) + "\n"


def report(billed_ms: int, rest: str = "") -> str:
    figures = f"Duration: 10.20 ms\tBilled Duration: {billed_ms} ms\tMemory Size: 512 MB{rest}"
    return f"END RequestId: 1\nREPORT RequestId: 1\t{figures}\tTime: 2023-11-14T22:13:19+00:00\n"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(10)


@pytest.fixture
def logs(tmp_path: Path, clock: ManualClock) -> LocalLogs:
    return LocalLogs(tmp_path, clock, since_us=5)


def append(folder: Path, name: str, text: str) -> None:
    with (folder / name).open("a") as file:
        file.write(text)


def test_reads_are_counted_by_tier_as_they_come(logs: LocalLogs, tmp_path: Path) -> None:
    append(tmp_path, "requests.jsonl", request(1_000, "/objects/a") + request(1_500, "/objects/a", tier="redis"))
    first = logs.read()
    append(tmp_path, "requests.jsonl", request(4_000, "/objects/b"))

    assert {tier: use.reads for tier, use in first.tiers.items()} == {"s3": 1, "redis": 1}
    assert logs.read().tiers["s3"].reads == 2
    assert logs.read().series == ((0, {"s3": 1, "redis": 1}), (4, {"s3": 1}))


def test_characters_that_python_takes_for_ends_of_lines_end_none(logs: LocalLogs, tmp_path: Path) -> None:
    odd = json.loads(request(1_000, "/objects/a\u2028b\x85c"))
    append(tmp_path, "requests.jsonl", json.dumps(odd, ensure_ascii=False) + "\n" + request(1_500, "/objects/d"))

    assert logs.read().reads == 2
    assert len(list(logs.reads_of("a\u2028b\x85c"))) == 1


def test_half_a_line_waits_for_its_end(logs: LocalLogs, tmp_path: Path) -> None:
    line = request(1_000, "/objects/a")
    append(tmp_path, "requests.jsonl", line[:20])
    assert logs.read().reads == 0

    append(tmp_path, "requests.jsonl", line[20:])

    assert logs.read().reads == 1


def test_key_is_decoded_from_path_or_query(logs: LocalLogs, tmp_path: Path) -> None:
    lines = request(1, "/objects/a%20b/c") + request(2, "/objects", query="key=a%3Fb") + request(3, "/other")
    append(tmp_path, "requests.jsonl", lines)
    logs.read()

    assert logs.newest_requests() == [(1_000, "a b/c", 100), (2_000, "a?b", 100)]
    assert [read.at_ms for read in logs.reads_of("a?b")] == [2]


def test_failed_and_refused_reads_are_no_reads_of_a_tier(logs: LocalLogs, tmp_path: Path) -> None:
    lines = request(1, "/objects/a", status=503) + request(2, "/objects/a", status=404) + request(3, "/objects/a")
    append(tmp_path, "requests.jsonl", lines + request(4, "/objects/a", method="HEAD"))

    measured = logs.read()

    assert (measured.reads, measured.failed_reads) == (1, 1)


def test_functions_are_billed_by_their_reports_with_their_starts(logs: LocalLogs, tmp_path: Path) -> None:
    append(tmp_path, _PROXY_LOG, report(111, "\tInit Duration: 100.00 ms") + report(11))

    assert logs.read().functions == {"ProxyFunction": FunctionUse(2, 111 + 11, 512)}


def test_invocations_that_failed_are_counted(logs: LocalLogs, tmp_path: Path) -> None:
    append(tmp_path, _PROXY_LOG, report(11) + report(11, "\tStatus: error"))
    logs.read()
    append(tmp_path, _PROXY_LOG, report(111, "\tInit Duration: 100.00 ms\tStatus: error"))

    use = logs.read().functions["ProxyFunction"]
    assert (use.errors, use.failed_at_s) == (2, 1_699_999_999)


def test_metrics_are_taken_from_what_functions_print(logs: LocalLogs, tmp_path: Path) -> None:
    stack = {metrics.STACK: "burstcache"}
    lines = [
        emf_line({metrics.NODE_SECONDS: [30.5]}, stack, at_ms=1),
        emf_line({metrics.FALLBACKS: [1]}, {**stack, "Reason": "redis_down"}, at_ms=9_000),
        emf_line({metrics.FALLBACKS: [1]}, {**stack, "Reason": "redis_down"}, at_ms=1),
        emf_line({metrics.LIVES: [1]}, {**stack, "Outcome": "idle"}, at_ms=1),
        emf_line({metrics.PROMOTIONS: [3]}, stack, at_ms=1),
    ]
    append(tmp_path, _PROXY_LOG, "\n".join(lines) + "\n")

    measured = logs.read()

    assert (measured.node_s, measured.promotions) == (30.5, 3)
    assert (measured.fallbacks, measured.lives) == ({"redis_down": 2}, {"idle": 1})
    assert measured.fell_back_at_s == {"redis_down": 9}


def test_time_saved_is_that_against_the_median_of_s3(logs: LocalLogs, tmp_path: Path) -> None:
    slow = [request(at, "/objects/a", latency_ms=latency) for at, latency in ((1, 50), (2, 50), (3, 9_000))]
    quick = [request(at, "/objects/a", latency_ms=2, tier="redis") for at in range(10)]
    append(tmp_path, "requests.jsonl", "".join(slow + quick))

    assert logs.read().saved_ms == pytest.approx(10 * 48, rel=0.06)


def test_run_without_a_read_has_saved_nobody_knows_what(logs: LocalLogs) -> None:
    assert logs.read().saved_ms is None


def test_keys_asked_for_since_an_instant(logs: LocalLogs, tmp_path: Path) -> None:
    lines = request(1_000, "/objects/old") + request(2_000, "/objects/a") + request(2_500, "/objects/b")
    append(tmp_path, "requests.jsonl", lines)
    logs.read()

    assert logs.keys_read_since(2_020) == {"b"}
    assert logs.keys_read_since(2_000) == {"a", "b"}


def test_slow_read_hides_none_that_was_answered_before_it(logs: LocalLogs, tmp_path: Path) -> None:
    slow = request(1_000, "/objects/slow", latency_ms=2_000.0)
    append(tmp_path, "requests.jsonl", request(1_000, "/objects/old") + request(2_500, "/objects/a") + slow)
    logs.read()

    assert logs.keys_read_since(2_000) == {"a", "slow"}


def test_figures_are_those_until_now_even_if_nobody_reads_any_more(
    logs: LocalLogs, clock: ManualClock, tmp_path: Path
) -> None:
    append(tmp_path, "requests.jsonl", request(9_000, "/objects/a"))
    first = logs.read()
    clock.sleep(20)
    quiet = logs.read()
    clock.sleep(900)

    assert (first.until_us, quiet.until_us) == (10_000_000, 30_000_000)
    assert first.series == quiet.series == ((8, {"s3": 1}),)
    assert logs.read().series == ()


@pytest.mark.parametrize(
    "ask",
    [LocalLogs.read, LocalLogs.newest_requests, lambda logs: logs.reads_of("a"), lambda logs: logs.keys_read_since(0)],
)
def test_nobody_is_answered_from_what_another_thread_is_reading(
    ask: Callable[[LocalLogs], object], logs: LocalLogs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(tmp_path, "requests.jsonl", request(1_000, "/objects/a"))
    has_begun, may_go_on, usual = threading.Event(), threading.Event(), json.loads

    def loads(line: str) -> object:
        has_begun.set()
        may_go_on.wait()
        return usual(line)

    monkeypatch.setattr(json, "loads", loads)
    with ThreadPoolExecutor(2) as threads:
        reading = threads.submit(logs.read)
        has_begun.wait()
        asking = threads.submit(ask, logs)
        answered, _ = wait([asking], timeout=0.1)
        may_go_on.set()

    assert not answered
    assert reading.result().reads == logs.read().reads == 1
