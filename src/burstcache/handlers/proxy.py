"""The proxy, which answers GET and HEAD requests from the tier that has the object."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from burstcache.adapters.clients import Clients
from burstcache.adapters.clock import Clock, SystemClock
from burstcache.adapters.warm_up import warm_up
from burstcache.core.errors import RefusedRequestError
from burstcache.handlers._init import at_init, logs_requests
from burstcache.handlers._self_test import answers_self_test
from burstcache.logs import logger
from burstcache.serve.factory import make_reader
from burstcache.serve.read_meter import ReadMeter
from burstcache.serve.reader import Reader
from burstcache.settings.proxy import ProxySettings
from burstcache.traces import annotate, mark_failed, traces_requests
from burstcache.web.front_door import Arrival, answer, arrival
from burstcache.web.methods import READS, WRITES
from burstcache.web.prefixes import parse_patterns
from burstcache.web.reading import read_request
from burstcache.web.response import Response, error_response


@dataclass(frozen=True, slots=True)
class Proxy:
    """An adapter from the front door's events to a reader."""

    reader: Reader
    clock: Clock
    meter: ReadMeter
    prefixes: Sequence[str] = ()
    allowed: Sequence[str] = READS  # methods that the front door accepts

    def handle(self, event: dict[str, Any], context: Any) -> dict[str, Any]:
        """Answer one request, always with a well-formed response, never with an exception."""
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
            self._failed()
            message = "the proxy failed; its log has the reason. Try again"
            return answer(event, error_response(503, "ProxyFailed", message, method=method))

    def _count(self, response: Response, began_s: float) -> None:
        if response.status >= 500:
            self._failed()
        else:
            latency_ms = (self.clock.monotonic_s() - began_s) * 1000
            self.meter.served(response.headers.get("x-cache-tier", "s3"), latency_ms, len(response.body))

    def _failed(self) -> None:
        self.meter.failed()
        mark_failed()

    def _respond(self, arrived: Arrival, context: Any) -> Response:
        at_us = self.clock.now_us()
        request_id = arrived.request_id or str(getattr(context, "aws_request_id", ""))
        request = read_request(
            arrived, request_id=request_id, at_us=at_us, prefixes=self.prefixes, allowed=self.allowed
        )
        response = self.reader.read(request)
        tier, is_hit = response.headers.get("x-cache-tier", "s3"), response.headers.get("x-cache") == "hit"
        annotate(tier=tier, hit=is_hit, key_hash=request.hash)
        return response


def make_proxy(settings: ProxySettings, clients: Clients, clock: Clock) -> Proxy:
    """Build a stack's proxy, with a memory cache of the configured size."""
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
    allowed = (*READS, *WRITES) if settings.takes_writes else READS
    return Proxy(reader, clock, meter, parse_patterns(settings.prefixes), allowed)


@at_init
def _proxy() -> Proxy:
    settings, clients = ProxySettings.read(os.environ), Clients("read")
    proxy = make_proxy(settings, clients, SystemClock())
    warm_up(clients.s3.get_object, Bucket=settings.bucket_name, Key="key")
    if settings.bus_name:
        warm_up(clients.events.put_events, Entries=[{}])
    proxy.reader.prefetch_digest()
    return proxy


@traces_requests
@logs_requests
@answers_self_test("proxy")
def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Answer one request from the front door, always with a well-formed response, never with an exception."""
    return _proxy().handle(event, context)
