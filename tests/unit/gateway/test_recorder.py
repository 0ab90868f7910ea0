"""A gateway's recorder: the counters of its requests, as Prometheus reads them."""

from __future__ import annotations

import re

import pytest

from burstcache.gateway.http_messages import HttpRequest, error_answer, response_head
from burstcache.gateway.prometheus import FAMILIES, GatewayMetrics, observe
from burstcache.gateway.recorder import Recorder
from burstcache.gateway.s3_errors import S3Error
from burstcache.gateway.s3_operations import operation_of
from burstcache.gateway.s3_requests import Targets

TARGETS = Targets(("localhost",))


def answered(method: str, target: str, status: int = 200, *, tier: str = "", sent: int = 0) -> HttpRequest:
    """Return a request with the head of its response."""
    request = HttpRequest(method.encode(), target.encode(), is_authorised=True)
    headers = [("content-length", "7"), *([("x-cache-tier", tier)] if tier else []), ("x-cache", "hit")]
    request.status, request.head, request.sent_bytes = status, response_head(status, headers), sent
    return request


def counted(metrics: GatewayMetrics, name: str) -> dict[tuple[str, ...], int]:
    """Return the values of a metric that are not 0, by the values of its labels."""
    lines = re.findall(rf"^burstcache_gateway_{name}(?:\{{(.*)\}})? (\d+)$", metrics.text(), re.MULTILINE)
    return {tuple(re.findall(r'"(\w+)"', labels)): int(value) for labels, value in lines if int(value)}


@pytest.mark.parametrize(
    ("request_", "labels"),
    [
        (answered("GET", "/b/k", tier="memory"), ("get", "memory", "ok")),
        (answered("HEAD", "/b/k", tier="disk"), ("head", "disk", "ok")),
        (answered("GET", "/b/k", 404, tier="memory"), ("get", "memory", "client_error")),
        (answered("GET", "/b/k?versionId=1"), ("get", "s3", "ok")),
        (answered("GET", "/b/k?tagging"), ("other", "s3", "ok")),
        (answered("GET", "/b?list-type=2"), ("other", "s3", "ok")),
        (answered("PUT", "/b/k", 503), ("write", "s3", "server_error")),
        (answered("POST", "/b?delete"), ("write", "s3", "ok")),
        (answered("POST", "/b/k?select&select-type=2"), ("other", "s3", "ok")),
        (answered("GET", "/b/%ff"), ("other", "s3", "ok")),
        (answered("GET", "/b/k", tier="a-new-one"), ("get", "s3", "ok")),
    ],
)
def test_a_request_counts_by_operation_tier_and_outcome(request_: HttpRequest, labels: tuple[str, ...]) -> None:
    metrics = GatewayMetrics(1, started_s=0)
    recorder = Recorder(metrics.start_process(0), TARGETS)

    request_.is_recorded = False  # parameters are shared by repeated runs
    recorder.end_request(request_, "127.0.0.1", is_complete=True)
    recorder.end_request(request_, "127.0.0.1", is_complete=False)  # the end of its connection

    assert counted(metrics, "requests_total") == {labels: 1}


def test_a_response_that_breaks_off_is_aborted_and_its_bytes_count() -> None:
    metrics = GatewayMetrics(1, started_s=0)
    recorder = Recorder(metrics.start_process(0), TARGETS)

    recorder.end_request(answered("GET", "/b/k", tier="redis", sent=3), "", is_complete=False)

    assert counted(metrics, "requests_total") == {("get", "redis", "aborted"): 1}
    assert counted(metrics, "sent_bytes_total") == {("redis",): 3}


def test_refusals_count_by_code_and_failures_of_s3_are_none() -> None:
    metrics = GatewayMetrics(1, started_s=0)
    recorder = Recorder(metrics.start_process(0), TARGETS)

    def refuse(code: str, *, is_authorised: bool) -> None:
        request = HttpRequest(b"GET", b"/b/k", is_authorised=is_authorised)
        request.status, request.head, _ = error_answer(S3Error(code, "no"), request)
        recorder.end_request(request, "", is_complete=True)

    refuse("SignatureDoesNotMatch", is_authorised=False)
    refuse("SignatureDoesNotMatch", is_authorised=True)  # of a chunk
    refuse("InvalidArgument", is_authorised=False)
    refuse("MalformedXML", is_authorised=True)
    refuse("ServiceUnavailable", is_authorised=True)

    assert counted(metrics, "refused_requests_total") == {("SignatureDoesNotMatch",): 2, ("other",): 1}
    assert counted(metrics, "requests_total") == {
        ("get", "none", "client_error"): 4,
        ("get", "none", "server_error"): 1,
    }


def test_processes_add_up_and_a_restarted_one_keeps_its_counters_but_no_gauges() -> None:
    metrics = GatewayMetrics(2, started_s=1_700_000_000.5)
    for process in (0, 1):
        recorder = Recorder(metrics.start_process(process), TARGETS)
        recorder.open_connection()
        recorder.end_request(answered("GET", "/b/k", tier="memory"), "", is_complete=True)
    before = counted(metrics, "connections")
    metrics.start_process(1)

    assert before == {(): 2}
    assert counted(metrics, "connections") == {(): 1}
    assert counted(metrics, "requests_total") == {("get", "memory", "ok"): 2}
    assert counted(metrics, "process_starts_total") == {(): 3}
    assert "\nprocess_start_time_seconds 1700000000\n" in metrics.text()


def test_a_histogram_is_cumulative_and_has_its_sum_in_seconds() -> None:
    metrics = GatewayMetrics(1, started_s=0)
    values = metrics.start_process(0)
    for elapsed_ns in (50_000, 100_000, 2_000_000, 60_000_000_000):
        observe(values, FAMILIES["s3_request_seconds"].index("get"), elapsed_ns)

    text = metrics.text()
    name = "burstcache_gateway_s3_request_seconds"
    buckets = re.findall(rf'{name}_bucket{{operation="get",le="(.*?)"}} (\d+)', text)
    assert buckets[0] == ("0.0001", "2")
    assert dict(buckets)["0.0025"] == "3"
    assert buckets[-1] == ("+Inf", "4")
    assert [int(count) for _, count in buckets] == sorted(int(count) for _, count in buckets)
    assert f'{name}_sum{{operation="get"}} 60.00215\n' in text
    assert f'{name}_count{{operation="get"}} 4\n' in text
    assert f'{name}_count{{operation="head"}} 0\n' in text


def test_every_line_is_of_the_text_format() -> None:
    metrics = GatewayMetrics(3, started_s=0)
    line = re.compile(r'# (?:HELP|TYPE) \w+ .+|\w+(?:\{\w+="[^"]*"(?:,\w+="[^"]*")*\})? [\d.e+-]+')

    assert [each for each in metrics.text().splitlines() if not line.fullmatch(each)] == []


@pytest.mark.parametrize(
    ("method", "target", "operation"),
    [
        ("GET", "/", "REST.GET.SERVICE"),
        ("GET", "/b", "REST.GET.BUCKET"),
        ("GET", "/b?versions", "REST.GET.BUCKETVERSIONS"),
        ("HEAD", "/b", "REST.HEAD.BUCKET"),
        ("POST", "/b?delete", "REST.POST.MULTI_OBJECT_DELETE"),
        ("POST", "/b/k?uploads", "REST.POST.UPLOADS"),
        ("PUT", "/b/k?partNumber=1&uploadId=u", "REST.PUT.PART"),
        ("POST", "/b/k?uploadId=u", "REST.POST.UPLOAD"),
        ("GET", "/b/k?tagging", "REST.GET.OBJECT_TAGGING"),
        ("OPTIONS", "/b/k", "REST.OPTIONS.PREFLIGHT"),
    ],
)
def test_an_operation_has_s3s_name(method: str, target: str, operation: str) -> None:
    request = HttpRequest(method.encode(), target.encode())

    assert operation_of(request, TARGETS.find(request)) == operation


def test_a_copy_has_a_name_of_its_own() -> None:
    request = HttpRequest(b"PUT", b"/b/k", [(b"x-amz-copy-source", b"/b/other")])

    assert operation_of(request, TARGETS.find(request)) == "REST.COPY.OBJECT"
