"""The front door on a loopback port: the stack's HTTP API or load balancer."""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace

from aiohttp import web
from multidict import CIMultiDict

from burstcache_local.errors import ThrottledError
from burstcache_local.front.access_log import AccessLog
from burstcache_local.front.http_events import (
    HttpAnswer,
    HttpRequest,
    Route,
    alb_answer,
    alb_event,
    decoded_path,
    http_api_answer,
    http_api_event,
    match_route,
)
from burstcache_local.front.http_server import Server
from burstcache_local.functions import Outcome
from burstcache_local.lambdas.service import Lambdas

_MB = 1024 * 1024
# Hop-by-hop headers of a function's response, which the server replaces.
_HOP_HEADERS = frozenset({"connection", "content-length", "keep-alive", "transfer-encoding", "upgrade"})


@dataclass(frozen=True, slots=True)
class HttpApi:
    """The front door of the HTTP API."""

    routes: Sequence[Route]  # sorted by rank
    api_id: str
    timeout_s: float = 30.0
    max_request_bytes: int = 10 * _MB
    max_event_bytes: int = 6 * _MB  # Lambda's limit; for larger events, the client gets Lambda's 413

    async def handle(self, request: HttpRequest, lambdas: Lambdas) -> HttpAnswer:
        match = match_route(self.routes, request.method, decoded_path(request.raw_path))
        if match is None:
            return _message(404, "Not Found")
        if len(request.body) > self.max_request_bytes:
            return _message(413, "Request Too Long")
        route, parameters = match
        event = http_api_event(request, route, parameters, api_id=self.api_id)
        payload = json.dumps(event).encode()
        if len(payload) > self.max_event_bytes:
            return _message(413, "Request Too Long")
        try:
            # Shielded, so that the function continues after the timeout, as on AWS.
            invocation = asyncio.ensure_future(_invoke(lambdas, route.function, payload))
            outcome = await asyncio.wait_for(asyncio.shield(invocation), self.timeout_s)
        except TimeoutError:
            return _message(503, "Service Unavailable")
        except ThrottledError:
            return _message(503, "Service Unavailable")
        answer = None if outcome.error else http_api_answer(outcome.body)
        answer = answer or _message(500, "Internal Server Error")
        identity = ("apigw-requestid", event["requestContext"]["requestId"])
        return replace(answer, headers=(*answer.headers, identity))


@dataclass(frozen=True, slots=True)
class LoadBalancer:
    """The front door of the Application Load Balancer."""

    function: str
    target_group_arn: str
    multi_value: bool
    max_body_bytes: int = _MB

    async def handle(self, request: HttpRequest, lambdas: Lambdas) -> HttpAnswer:
        if len(request.body) > self.max_body_bytes:
            return _page(413, "Request Entity Too Large")
        event = alb_event(request, target_group_arn=self.target_group_arn, multi_value=self.multi_value)
        try:
            outcome = await _invoke(lambdas, self.function, json.dumps(event).encode())
        except ThrottledError:
            return _page(502, "Bad Gateway")
        if outcome.error or len(outcome.body) > self.max_body_bytes:
            return _page(502, "Bad Gateway")
        return alb_answer(outcome.body, multi_value=self.multi_value) or _page(502, "Bad Gateway")


Door = HttpApi | LoadBalancer


class Front:
    """The web application. It starts before the stack, whose outputs contain the URL. `door` is set afterwards."""

    def __init__(self, lambdas: Lambdas, log: AccessLog) -> None:
        self._lambdas, self._log = lambdas, log
        self.door: Door | None = None

    def server(self) -> Server:
        """Return a new server, bound to the running event loop."""
        return Server(self._handle, max_body_bytes=64 * _MB)

    async def _handle(self, request: HttpRequest) -> web.Response:
        if self.door is None:
            return _response(_message(503, "Service Unavailable"), request.method)
        began_s = time.time()
        answer = await self.door.handle(request, self._lambdas)
        self._log.write(request, answer, began_s)
        return _response(answer, request.method)


async def _invoke(lambdas: Lambdas, function: str, payload: bytes) -> Outcome:
    return await lambdas.invoke(function, payload, request_id=str(uuid.uuid4()))


def _response(answer: HttpAnswer, method: str) -> web.Response:
    headers = CIMultiDict((name, value) for name, value in answer.headers if name not in _HOP_HEADERS)
    response = web.Response(status=answer.status, headers=headers, body=answer.body)
    if method == "HEAD" and not answer.body:
        lengths = [value for name, value in answer.headers if name == "content-length"]
        response.headers.update({"Content-Length": lengths[0]} if lengths else {})
    return response


def _message(status: int, text: str) -> HttpAnswer:
    return HttpAnswer(status, (("content-type", "application/json"),), json.dumps({"message": text}).encode())


def _page(status: int, text: str) -> HttpAnswer:
    title = f"{status} {text}"
    page = f"<html><head><title>{title}</title></head><body><center><h1>{title}</h1></center></body></html>"
    return HttpAnswer(status, (("content-type", "text/html"),), page.encode())
