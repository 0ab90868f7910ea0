"""Spans of a gateway's requests and of its requests to S3, by the semantic conventions of HTTP and the AWS SDK.

Only `tracing` imports this module, since OpenTelemetry takes long to import and need not be installed.

Source:
    OpenTelemetry, "Semantic conventions for HTTP spans", "for AWS SDK client spans", "for AWS S3 client spans".
"""

from __future__ import annotations

import asyncio
import threading
import time
import uuid
from collections.abc import Collection, Mapping, Sequence
from importlib.metadata import entry_points
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import aiohttp
from opentelemetry import trace
from opentelemetry.propagate import extract
from opentelemetry.sdk.resources import SERVICE_INSTANCE_ID, SERVICE_NAME, SERVICE_VERSION, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Span, SpanKind, Status, StatusCode

from burstcache import __version__
from burstcache.gateway.api_operations import ApiOperations
from burstcache.gateway.http_connection import Application, HttpConnection
from burstcache.gateway.http_messages import HttpRequest
from burstcache.gateway.recorder import described
from burstcache.gateway.s3_errors import S3Error
from burstcache.gateway.s3_operations import UNKNOWN
from burstcache.gateway.s3_requests import Target, Targets, host_name

_FLUSHED_WITHIN_S = 5.0
_UNNAMED_SERVICE = "unknown_service"
_DEFAULT_PORTS = {"http": 80, "https": 443}
_Attributes = dict[str, str | int]


def provider_of(exporters: Sequence[str]) -> TracerProvider:
    """Return a provider with exporters, by the names that their packages register. It reads the standard variables.

    Raises:
        LookupError: No installed package has an exporter of this name.
    """
    resource = Resource.create()
    own = {
        SERVICE_NAME: "burstcache-gateway",
        SERVICE_VERSION: __version__,
        SERVICE_INSTANCE_ID: str(uuid.uuid4()),
    }
    given = {name for name, value in resource.attributes.items() if not str(value).startswith(_UNNAMED_SERVICE)}
    resource = resource.merge(Resource({name: value for name, value in own.items() if name not in given}))
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    for name in exporters:
        found = next(iter(entry_points(group="opentelemetry_traces_exporter", name=name)), None)
        if found is None:
            raise LookupError(f"no installed package has the exporter {name!r}")
        provider.add_span_processor(BatchSpanProcessor(found.load()()))
    return provider


class _Sent(threading.local):
    """The request that boto3 sends in this thread: its bucket and key, and its span."""

    where: tuple[str, str] = "", ""
    span: Span | None = None


class Spans:
    """Spans of one process. For its event loop, but for the calls of boto3."""

    def __init__(self, provider: TracerProvider, targets: Targets, s3: Any) -> None:
        """Create the spans.

        Args:
            provider: Exports them.
            targets: Parses request targets.
            s3: The boto3 client by which the cache reads S3.
        """
        self._provider = provider
        self._tracer = provider.get_tracer("burstcache.gateway", __version__)
        self._targets = targets
        self._operations = ApiOperations(s3.meta.service_model)
        self._under_way: dict[tuple[str, str], list[Span]] = {}  # spans of requests, by bucket and key
        self._sent = _Sent()
        s3.meta.events.register("before-parameter-build.s3", self._note_parameters)
        s3.meta.events.register_first("before-send.s3", self._note_sent)
        s3.meta.events.register("response-received.s3", self._note_received)

    async def close(self) -> None:
        """Export what is left, as far as that takes a few seconds."""
        flushing = threading.Thread(target=self._provider.shutdown, daemon=True)
        flushing.start()
        await asyncio.to_thread(flushing.join, _FLUSHED_WITHIN_S)

    # Requests of clients.

    def traced(self, application: Application) -> Application:
        """Return an application whose requests have spans."""
        return TracedApplication(application, self)

    def begin_request(self, request: HttpRequest, connection: HttpConnection) -> tuple[Span, tuple[str, str]]:
        """Begin the span of a client's request. Return it with the bucket and the key."""
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in request.headers}
        target, operation = described(request, self._targets)
        method = request.method.decode("latin-1")
        attributes, name = self._attributes(method, target, headers)
        if operation == UNKNOWN:  # its target is malformed
            attributes.pop("rpc.method", None)
            name = method
        host = request.header(b"host") or b""
        attributes |= {
            "url.scheme": "https" if connection.is_tls else "http",
            "url.path": _path(request.target),  # the query may have a signature
            "network.protocol.version": "1.0" if request.is_http_1_0 else "1.1",
        }
        optional: dict[str, str | int | None] = {
            "server.address": host_name(host).strip("[]"),
            "server.port": _port(host),
            "client.address": connection.peer,
            "user_agent.original": headers.get("user-agent"),
        }
        attributes |= {key: value for key, value in optional.items() if value}
        span = self._tracer.start_span(
            name,
            context=extract(headers),
            kind=SpanKind.SERVER,
            attributes=attributes,
            start_time=time.time_ns() - (time.monotonic_ns() - request.received_ns),
        )
        where = target.bucket, target.key
        if span.is_recording():
            self._under_way.setdefault(where, []).append(span)
        return span, where

    def end_request(
        self, span: Span, where: tuple[str, str], request: HttpRequest, error: BaseException | None
    ) -> None:
        """End the span of a client's request."""
        if span.is_recording():
            spans = self._under_way[where]
            spans.remove(span)
            if not spans:
                del self._under_way[where]
            _note_response(span, request, error)
        span.end()

    # Requests to S3 by aiohttp.

    def trace_config(self) -> aiohttp.TraceConfig:
        """Return a trace configuration by which an aiohttp session makes a span of each request."""
        config = aiohttp.TraceConfig()
        config.on_request_start.append(self._note_start)
        config.on_request_end.append(_note_end)
        config.on_request_exception.append(_note_exception)
        return config

    async def _note_start(
        self, _: aiohttp.ClientSession, context: SimpleNamespace, start: aiohttp.TraceRequestStartParams
    ) -> None:
        target = context.trace_request_ctx
        headers = {each.lower() for each in start.headers}
        context.span = self._begin_call(trace.get_current_span(), start.method, target, headers, str(start.url))

    # Requests to S3 by boto3, in threads that may work for several requests at once.

    def _note_parameters(self, params: Mapping[str, Any], **_: object) -> None:
        self._sent.where = str(params.get("Bucket", "")), str(params.get("Key", ""))

    def _note_sent(self, request: Any, **_: object) -> None:
        self._sent.span = None
        bucket, key = where = self._sent.where
        spans = tuple(self._under_way.get(where, ()))
        # Single flight shares a request to S3 across thread pools. A context passed from thread to thread would name an
        # arbitrary one of the waiting requests, too.
        if spans:  # otherwise it is for no request, such as a write of a copy behind a response
            target = Target(bucket, key, "", ())
            self._sent.span = self._begin_call(spans[0], request.method, target, (), request.url)

    def _note_received(
        self, response_dict: Mapping[str, Any] | None, exception: BaseException | None = None, **_: object
    ) -> None:
        span, self._sent.span = self._sent.span, None
        if response_dict is None:
            _end_failed_call(span, exception)
        else:
            _end_call(span, response_dict["status_code"], response_dict["headers"])

    def _begin_call(self, parent: Span, method: str, target: Target, headers: Collection[str], url: str) -> Span | None:
        """Begin the span of a request to S3. None: that of the client's request is not recorded."""
        if not parent.is_recording():
            return None
        attributes, name = self._attributes(method, target, headers)
        to = urlsplit(url)
        attributes |= {"server.address": to.hostname or "", "server.port": to.port or _DEFAULT_PORTS[to.scheme]}
        context = trace.set_span_in_context(parent)
        return self._tracer.start_span(name, context=context, kind=SpanKind.CLIENT, attributes=attributes)

    def _attributes(self, method: str, target: Target, headers: Collection[str]) -> tuple[_Attributes, str]:
        """Return the attributes that spans of both kinds have, and the name of the span."""
        operation = self._operations.name(method, target, headers)
        query = dict(target.query)
        part = query.get("partNumber", "")
        optional: dict[str, str | int] = {
            "rpc.method": operation,
            "aws.s3.bucket": target.bucket,
            "aws.s3.key": target.key,
            "aws.s3.upload_id": query.get("uploadId", ""),
            "aws.s3.part_number": int(part) if part.isdecimal() and len(part) < 6 else 0,
        }
        # Newer conventions of RPC rename these. Those of the AWS SDK and botocore's instrumentation do not.
        attributes: _Attributes = {"http.request.method": method, "rpc.system": "aws-api", "rpc.service": "S3"}
        attributes |= {key: value for key, value in optional.items() if value}
        return attributes, f"S3.{operation}" if operation else method


class TracedApplication:
    """An application whose requests have spans, unless it answers them at once from memory."""

    def __init__(self, application: Application, spans: Spans) -> None:
        """Trace the requests of `application`."""
        self.respond_now = application.respond_now
        self._application = application
        self._spans = spans

    async def respond(self, request: HttpRequest, connection: HttpConnection) -> None:
        """Answer a request that may have to wait."""
        span, where = self._spans.begin_request(request, connection)
        failure: BaseException | None = None
        try:
            with trace.use_span(span, record_exception=False, set_status_on_exception=False):
                await self._application.respond(request, connection)
        except BaseException as error:
            failure = error
            raise
        finally:
            self._spans.end_request(span, where, request, failure)


def _note_response(span: Span, request: HttpRequest, error: BaseException | None) -> None:
    """Set the attributes of the response to a client's request."""
    status, failure = request.status, ""
    if error is not None:
        failure = error.code if isinstance(error, S3Error) else type(error).__name__
        if not status and isinstance(error, Exception) and not isinstance(error, ConnectionError):
            status = error.status if isinstance(error, S3Error) else 500  # the connection answers that
    attributes: _Attributes = {}
    if status:
        attributes["http.response.status_code"] = status
        attributes["http.response.body.size"] = request.sent_bytes
    if error is None or request.status:
        head = dict(line.partition(": ")[::2] for line in request.head.decode("latin-1").split("\r\n")[1:])
        attributes["burstcache.cache.status"] = head.get("x-cache", "bypass")
        attributes["burstcache.cache.tier"] = head.get("x-cache-tier", "s3")
        if request_id := head.get("x-amz-request-id"):
            attributes["aws.request_id"] = request_id
    if status >= 500 or (error is not None and not 400 <= status < 500):
        attributes["error.type"] = failure or str(status)
        span.set_status(Status(StatusCode.ERROR))
    span.set_attributes(attributes)


async def _note_end(_: aiohttp.ClientSession, context: SimpleNamespace, end: aiohttp.TraceRequestEndParams) -> None:
    _end_call(context.span, end.response.status, end.response.headers)


async def _note_exception(
    _: aiohttp.ClientSession, context: SimpleNamespace, end: aiohttp.TraceRequestExceptionParams
) -> None:
    _end_failed_call(context.span, end.exception)


def _end_call(span: Span | None, status: int, headers: Mapping[str, str]) -> None:
    """End the span of a request to S3 whose response has begun."""
    if span is None:
        return
    span.set_attribute("http.response.status_code", status)
    for name, header in (("aws.request_id", "x-amz-request-id"), ("aws.extended_request_id", "x-amz-id-2")):
        if value := headers.get(header):
            span.set_attribute(name, value)
    if status >= 400:
        span.set_attribute("error.type", str(status))
        span.set_status(Status(StatusCode.ERROR))
    span.end()


def _end_failed_call(span: Span | None, error: BaseException | None) -> None:
    """End the span of a request that S3 has not answered."""
    if span is None:
        return
    span.set_attribute("error.type", type(error).__name__)
    span.set_status(Status(StatusCode.ERROR))
    span.end()


def _path(target: bytes) -> str:
    """Return the path of a request target, which for a proxy is a URL."""
    path = target.partition(b"?")[0].decode("latin-1")
    return path if path.startswith("/") else "/" + path.partition("://")[2].partition("/")[2]


def _port(host: bytes) -> int:
    """Return the port of a Host header, or 0."""
    port = host.rpartition(b":")[2]
    return int(port) if port.isdigit() and len(port) < 6 else 0
