"""Spans of a gateway: OpenTelemetry's collector sees requests and their calls of S3, from every process."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from pathlib import Path

import pytest

from burstcache import __version__
from support.gateway_processes import BUCKET, Gateway, gateway
from support.span_collector import Collector, span_collector
from support.store_of_writes import Store, store_of_writes
from support.waiting import LIMIT_S, free_port

pytestmark = pytest.mark.slow

_TRACE, _PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
_SAMPLED, _UNSAMPLED = f"00-{_TRACE}-{_PARENT}-01", f"00-{_TRACE}-{_PARENT}-00"
_BODY = b"body" * 100
_FOR_GOOD = ("--freshness", "immutable")


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    with store_of_writes() as store:
        store.put(f"/{BUCKET}/a%20b/%C3%A4", _BODY)
        store.put(f"/{BUCKET}/large", bytes(20 << 20))
        yield store


@pytest.fixture
def collector() -> Iterator[Collector]:
    with span_collector() as collector:
        yield collector


def request(
    connection: HTTPConnection, method: str, path: str, body: bytes | None = None, *, traceparent: str = ""
) -> tuple[int, bytes]:
    connection.request(method, f"/{BUCKET}{path}", body, {"traceparent": traceparent} if traceparent else {})
    response = connection.getresponse()
    return response.status, response.read()


@contextmanager
def unsigned(
    s3_url: str, *options: str, log: Path | None = None, variables: dict[str, str]
) -> Iterator[tuple[Gateway, HTTPConnection]]:
    """Run a gateway that needs no signatures. Return it with a connection."""
    with (
        gateway(s3_url, "--unsigned", *options, log=log, variables=variables) as running,
        closing(running.connect()) as connection,
    ):
        yield running, connection


def stop(running: Gateway) -> int:
    """Stop a gateway, so that it exports what it has, and return its exit code."""
    running.process.terminate()
    return running.process.wait(LIMIT_S)


def test_a_miss_is_a_span_of_the_clients_trace_with_the_request_to_s3_below(store: Store, collector: Collector) -> None:
    with unsigned(store.url, *_FOR_GOOD, variables=collector.variables) as (running, connection):
        answers = [request(connection, "GET", "/a%20b/%C3%A4", traceparent=_SAMPLED) for _ in range(3)]
        stop(running)

    (server,), (client,) = collector.of_kind("server"), collector.of_kind("client")  # hits in memory have none
    assert answers == [(200, _BODY)] * 3
    assert (server.name, server.trace_id, server.parent_id) == ("S3.GetObject", _TRACE, _PARENT)
    assert (client.name, client.trace_id, client.parent_id) == ("S3.GetObject", _TRACE, server.span_id)
    assert 0 < client.seconds < server.seconds < LIMIT_S
    of_both = {
        "http.request.method": "GET",
        "http.response.status_code": 200,
        "rpc.system": "aws-api",
        "rpc.service": "S3",
        "rpc.method": "GetObject",
        "aws.s3.bucket": BUCKET,
        "aws.s3.key": "a b/ä",
        "server.address": "127.0.0.1",
    }
    assert (
        server.attributes.items()
        >= {
            **of_both,
            "server.port": running.port,
            "client.address": "127.0.0.1",
            "url.scheme": "http",
            "url.path": f"/{BUCKET}/a%20b/%C3%A4",
            "http.response.body.size": len(_BODY),
            "burstcache.cache.status": "miss",
            "burstcache.cache.tier": "s3",
        }.items()
    )
    assert client.attributes.items() >= of_both.items() | {("server.port", int(store.url.rpartition(":")[2]))}
    assert server.resource.items() >= {"service.name": "burstcache-gateway", "service.version": __version__}.items()
    assert not server.is_error
    assert not client.is_error


def test_s3_gets_the_clients_traceparent_and_none_of_the_gateways_own(store: Store, collector: Collector) -> None:
    sent = []
    with unsigned(store.url, variables=collector.variables) as (_, connection):
        for traceparent in ("", _SAMPLED):
            request(connection, "GET", "/absent?versionId=1", traceparent=traceparent)
            sent.append(store.last_headers.get("traceparent"))

    assert sent == [None, _SAMPLED]


def test_a_copy_that_s3_confirms_and_the_slices_of_a_large_object_have_their_requests_below(
    store: Store, collector: Collector
) -> None:
    with unsigned(store.url, "--max-stale-ms", "1", variables=collector.variables) as (running, connection):
        request(connection, "GET", "/a%20b/%C3%A4")
        time.sleep(0.002)  # longer than a copy is fresh
        request(connection, "GET", "/a%20b/%C3%A4")
        status, body = request(connection, "GET", "/large")
        stop(running)

    servers = {each.span_id: each for each in collector.of_kind("server")}
    clients = collector.of_kind("client")
    assert (status, len(body)) == (200, 20 << 20)
    assert [each.attributes["burstcache.cache.tier"] for each in servers.values()] == ["s3", "memory", "s3"]
    assert {each.attributes["aws.s3.key"] for each in clients} == {"a b/ä", "large"}
    for each in clients:
        server = servers[each.parent_id]
        assert server.trace_id == each.trace_id
        assert server.attributes["aws.s3.key"] == each.attributes["aws.s3.key"]
    small = [
        each.attributes["http.response.status_code"] for each in clients if each.attributes["aws.s3.key"] != "large"
    ]
    assert small == [200, 304]
    assert len(clients) > 4  # a large object takes several


def test_the_service_has_the_name_that_the_standard_variables_give_it(store: Store, collector: Collector) -> None:
    named = {"OTEL_SERVICE_NAME": "reader", "OTEL_RESOURCE_ATTRIBUTES": "service.instance.id=i-1,team=lake"}
    with unsigned(store.url, variables=collector.variables | named) as (running, connection):
        request(connection, "GET", "/absent")
        stop(running)

    given = {"service.name": "reader", "service.instance.id": "i-1", "team": "lake"}
    assert [each.resource.items() >= given.items() for each in collector.spans] == [True, True]


def test_writes_and_lists_are_named_by_their_operation(store: Store, collector: Collector) -> None:
    with unsigned(store.url, variables=collector.variables) as (running, connection):
        request(connection, "PUT", "/written", _BODY)
        request(connection, "GET", "?list-type=2&prefix=a")
        request(connection, "PUT", "/written?uploadId=u1&partNumber=7", _BODY)
        stop(running)

    servers, clients = collector.of_kind("server"), collector.of_kind("client")
    names = ["S3.PutObject", "S3.ListObjectsV2", "S3.UploadPart"]
    assert [each.name for each in servers] == [each.name for each in clients] == names
    assert {each.attributes["burstcache.cache.status"] for each in servers} == {"bypass"}
    assert "aws.s3.key" not in servers[1].attributes
    assert servers[2].attributes.items() >= {"aws.s3.upload_id": "u1", "aws.s3.part_number": 7}.items()


def test_an_s3_that_is_down_is_an_error_of_both_spans_and_a_missing_object_of_the_clients_alone(
    store: Store, collector: Collector
) -> None:
    with unsigned(store.url, variables=collector.variables) as (running, connection):
        assert request(connection, "GET", "/absent")[0] == 404
        stop(running)
    (server,), (client,) = collector.of_kind("server"), collector.of_kind("client")
    assert (server.attributes["http.response.status_code"], server.is_error) == (404, False)
    assert (client.attributes["http.response.status_code"], client.is_error) == (404, True)

    collector.spans.clear()
    with unsigned(f"http://127.0.0.1:{free_port()}", variables=collector.variables) as (running, connection):
        assert request(connection, "GET", "/any")[0] == 503
        stop(running)
    (server,), clients = collector.of_kind("server"), collector.of_kind("client")
    assert server.attributes["http.response.status_code"] == 503
    assert server.attributes["error.type"] == "ServiceUnavailable"
    assert server.is_error
    assert [(each.attributes["error.type"], each.is_error) for each in clients] == [("ClientConnectorError", True)]


def test_a_trace_that_its_client_does_not_sample_has_no_spans(store: Store, collector: Collector) -> None:
    with unsigned(store.url, variables=collector.variables) as (running, connection):
        for traceparent in (_UNSAMPLED, _SAMPLED):
            request(connection, "GET", f"/absent-{traceparent[-2:]}", traceparent=traceparent)
        stop(running)

    assert {each.attributes["aws.s3.key"] for each in collector.spans} == {"absent-01"}


def test_a_proxys_span_names_s3s_host(store: Store, collector: Collector) -> None:
    with unsigned(store.url, "--forward-proxy", variables=collector.variables) as (running, connection):
        connection.request("GET", f"{store.url}/{BUCKET}/a%20b/%C3%A4?X-Amz-Signature=secret")
        assert connection.getresponse().read() == _BODY
        stop(running)

    (server,), (client,) = collector.of_kind("server"), collector.of_kind("client")
    s3 = {"server.address": "127.0.0.1", "server.port": int(store.url.rpartition(":")[2]), "aws.s3.key": "a b/ä"}
    assert server.attributes.items() >= (s3 | {"url.path": f"/{BUCKET}/a%20b/%C3%A4"}).items()
    assert client.attributes.items() >= s3.items()
    assert "secret" not in repr(collector.spans)
    assert (client.name, client.parent_id) == ("S3.GetObject", server.span_id)


def test_each_process_exports_its_own_spans_and_one_that_is_stopped_loses_none(
    store: Store, collector: Collector
) -> None:
    with gateway(store.url, "--unsigned", "--processes", "2", variables=collector.variables) as running:
        pids, connections = running.processes(), list[HTTPConnection]()
        while not all(running.accepted(pid) for pid in pids):
            connections.append(running.connect())
            assert request(connections[-1], "GET", f"/absent-{len(connections)}")[0] == 404
        code = stop(running)
        for each in connections:
            each.close()

    servers = collector.of_kind("server")
    assert code == 0
    assert {each.attributes["aws.s3.key"] for each in servers} == {
        f"absent-{number}" for number in range(1, len(connections) + 1)
    }
    assert len(servers) == len(collector.of_kind("client")) == len(connections)
    assert len({each.resource["service.instance.id"] for each in servers}) == 2


@pytest.mark.parametrize(
    ("variables", "reason"),
    [
        ({"OTEL_TRACES_EXPORTER": "no-such"}, "no installed package has the exporter 'no-such'"),
        ({"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "smoke"}, "protocol 'smoke'"),
        ({"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "exporter 'otlp_proto_grpc'"),
    ],
)
def test_an_exporter_that_does_not_start_is_named_and_reads_go_on(
    store: Store, tmp_path: Path, variables: dict[str, str], reason: str
) -> None:
    with unsigned(store.url, log=tmp_path / "log", variables=variables) as (_, connection):
        assert request(connection, "GET", "/a%20b/%C3%A4") == (200, _BODY)

    log = (tmp_path / "log").read_text()
    assert "the gateway makes no spans" in log
    assert reason in log


def test_a_collector_that_hangs_delays_no_response_and_a_stop_by_seconds_only(store: Store) -> None:
    with socket.create_server(("127.0.0.1", 0)) as hanging:  # it accepts nothing
        variables = Collector(f"http://127.0.0.1:{hanging.getsockname()[1]}").variables
        variables["OTEL_EXPORTER_OTLP_TIMEOUT"] = "1000"  # [s]
        with unsigned(store.url, variables=variables) as (running, connection):
            assert request(connection, "GET", "/a%20b/%C3%A4") == (200, _BODY)
            began_s = time.monotonic()
            code = stop(running)

    assert code == 0
    assert time.monotonic() - began_s < 25  # the SDK itself waits for 30 s
