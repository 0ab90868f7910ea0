"""The proxy: GET and HEAD of objects, from whichever tier holds them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache
from typing import Any

from burstcache.adapters.clients import Clients
from burstcache.adapters.clock import Clock, SystemClock
from burstcache.core.errors import RefusedRequestError
from burstcache.handlers._init import at_init, logs_requests
from burstcache.handlers._self_test import answers_self_test
from burstcache.logs import logger
from burstcache.serve.assembly import make_reader
from burstcache.serve.read_meter import ReadMeter
from burstcache.serve.reader import Reader
from burstcache.settings import ProxySettings
from burstcache.web.front_door import Arrival, answer, arrival
from burstcache.web.reading import read_request
from burstcache.web.response import Response, error_response


@dataclass(frozen=True, slots=True)
class Proxy:
    """What stands between the front door's events and a reader."""

    reader: Reader
    clock: Clock
    meter: ReadMeter

    def handle(self, event: dict[str, Any], context: Any) -> dict[str, Any]:
        """Answer one request; always well-formed, never an exception."""
        method, began_s = "GET", self.clock.monotonic_s()
        try:
            arrived = arrival(event)
            method = arrived.method
            response = self._respond(arrived, context)
            self._count(response, began_s)
            return answer(event, response)
        except RefusedRequestError as refusal:
            code, message, headers = refusal.code, refusal.message, refusal.headers
            return answer(event, error_response(refusal.status, code, message, method=method, headers=headers))
        except Exception:
            logger().exception("the proxy failed")
            self.meter.failed()
            message = "the proxy failed; its log has the reason. Try again"
            return answer(event, error_response(503, "ProxyFailed", message, method=method))

    def _count(self, response: Response, began_s: float) -> None:
        if response.status >= 500:
            self.meter.failed()
        else:
            latency_ms = (self.clock.monotonic_s() - began_s) * 1000
            self.meter.served(response.headers.get("x-cache-tier", "s3"), latency_ms, len(response.body))

    def _respond(self, arrived: Arrival, context: Any) -> Response:
        at_us = self.clock.now_us()
        request_id = arrived.request_id or str(getattr(context, "aws_request_id", ""))
        return self.reader.read(read_request(arrived, request_id=request_id, at_us=at_us))


def make_proxy(settings: ProxySettings, clients: Clients, clock: Clock) -> Proxy:
    """Return the proxy of a stack, with as much memory as the settings give it."""
    meter = ReadMeter(clock)
    reader = make_reader(
        settings,
        clients,
        clock,
        memory_bytes=settings.memory_mb * 1024 * 1024,
        max_stale_s=settings.max_stale_ms / 1000,
        reads_ahead=False,
        fell_back=meter.fell_back,
    )
    return Proxy(reader, clock, meter)


@at_init
def _proxy() -> Proxy:
    return make_proxy(ProxySettings.read(os.environ), Clients("read"), SystemClock())


@logs_requests
@answers_self_test("proxy")
def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Answer one request of the front door; always well-formed, never an exception."""
    if _is_traced():
        return _traced_handler()(event, context)  # type: ignore[no-any-return]
    return _handle(event, context)


def _handle(event: dict[str, Any], context: Any) -> dict[str, Any]:
    return _proxy().handle(event, context)


def _is_traced() -> bool:
    """Whether X-Ray samples this request; only then is its library worth the import."""
    is_disabled = os.environ.get("POWERTOOLS_TRACE_DISABLED", "").lower() in ("1", "true", "yes", "on", "t", "y")
    return not is_disabled and "Sampled=1" in os.environ.get("_X_AMZN_TRACE_ID", "")


@cache
def _traced_handler() -> Any:
    try:
        from aws_lambda_powertools import Tracer

        return Tracer().capture_lambda_handler(_handle, capture_response=False)
    except Exception as error:  # a failing tracer must not fail the request
        logger().warning("tracing is on but does not start", reason=repr(error))
        return _handle
