"""Collector of spans: an OTLP receiver on loopback, for tests."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span as SpanMessage
from opentelemetry.proto.trace.v1.trace_pb2 import Status

KINDS = {SpanMessage.SPAN_KIND_SERVER: "server", SpanMessage.SPAN_KIND_CLIENT: "client"}


@dataclass(frozen=True)
class CollectedSpan:
    """A received span.

    Attributes:
        name: Its name.
        kind: `server` or `client`.
        trace_id: Its trace, in hexadecimal digits.
        span_id: Its own id.
        parent_id: The id of its parent. Empty: it is a root.
        seconds: How long it took [s].
        attributes: Its attributes.
        resource: The attributes of the process.
        is_error: Whether its status is an error.
    """

    name: str
    kind: str
    trace_id: str
    span_id: str
    parent_id: str
    seconds: float
    attributes: dict[str, str | int]
    resource: dict[str, str | int]
    is_error: bool


@dataclass
class Collector:
    """A running collector.

    Attributes:
        url: Its endpoint for OTLP over HTTP.
        spans: The spans received so far.
    """

    url: str
    spans: list[CollectedSpan] = field(default_factory=list)

    def of_kind(self, kind: str) -> list[CollectedSpan]:
        """Return the received spans of one kind, in the order of their reception."""
        return [each for each in list(self.spans) if each.kind == kind]

    @property
    def variables(self) -> dict[str, str]:
        """Environment variables by which a process sends its spans here, but only when it ends."""
        return {
            "OTEL_TRACES_EXPORTER": "otlp",
            "OTEL_EXPORTER_OTLP_ENDPOINT": self.url,
            "OTEL_BSP_SCHEDULE_DELAY": "3600000",
        }


@contextmanager
def span_collector() -> Iterator[Collector]:
    """Run a collector."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            assert self.path == "/v1/traces"
            collector.spans.extend(_spans(ExportTraceServiceRequest.FromString(body)))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        collector = Collector(f"http://127.0.0.1:{server.server_port}")
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield collector
        finally:
            server.shutdown()
            thread.join()


def _spans(request: ExportTraceServiceRequest) -> Iterator[CollectedSpan]:
    for resource in request.resource_spans:
        for scope in resource.scope_spans:
            for span in scope.spans:
                yield CollectedSpan(
                    span.name,
                    KINDS[span.kind],
                    span.trace_id.hex(),
                    span.span_id.hex(),
                    span.parent_span_id.hex(),
                    (span.end_time_unix_nano - span.start_time_unix_nano) / 1e9,
                    _values(span.attributes),
                    _values(resource.resource.attributes),
                    span.status.code == Status.STATUS_CODE_ERROR,
                )


def _values(attributes: object) -> dict[str, str | int]:
    pairs: list[KeyValue] = list(attributes)  # type: ignore[call-overload]
    return {each.key: getattr(each.value, each.value.WhichOneof("value") or "string_value") for each in pairs}
