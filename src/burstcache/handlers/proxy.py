"""The proxy: GET and HEAD of objects, from whichever tier holds them."""

from __future__ import annotations

import os
from functools import cache
from typing import Any

from burstcache.adapters.clients import Clients
from burstcache.adapters.clock import SystemClock
from burstcache.adapters.event_publisher import EventPublisher
from burstcache.adapters.object_store import ObjectStore
from burstcache.adapters.routes import Route, Routes
from burstcache.adapters.secrets import Secrets
from burstcache.core.errors import RefusedRequestError
from burstcache.handlers._init import at_init
from burstcache.logs import logger
from burstcache.serve.reader import Reader
from burstcache.serve.s3_tier import S3Tier
from burstcache.serve.tier import Tier
from burstcache.settings import ProxySettings, node_named
from burstcache.web.front_door import Arrival, answer, arrival
from burstcache.web.reading import read_request
from burstcache.web.response import Response, error_response

_CLOCK = SystemClock()


@cache
def _settings() -> ProxySettings:
    return ProxySettings.read(os.environ)


@cache
def _clients() -> Clients:
    return Clients("read")


@cache
def _secrets() -> Secrets:
    return Secrets(_clients().secrets)


def _make_tier(route: Route) -> Tier:
    # redis and nats cost more to import than all the rest, and most environments never meet a hot key.
    settings = _settings()
    if route.tier == "redis":
        from burstcache.adapters.redis_objects import RedisObjects
        from burstcache.serve.redis_tier import RedisNodeTier

        node = node_named(route.node, settings.redis_nodes)
        return RedisNodeTier(RedisObjects(node, _secrets(), settings.redis_secret_arn))
    from burstcache.adapters.relay import RelayRequests
    from burstcache.serve.cache_function_tier import LambdaTier

    return LambdaTier(RelayRequests(settings.relay, _secrets(), _CLOCK))


@at_init
def _reader() -> Reader:
    settings, clients = _settings(), _clients()
    publisher = EventPublisher(settings.bus_name, clients.events, _CLOCK)
    store = ObjectStore(settings.bucket_name, clients.s3)
    origin = S3Tier(store, publisher, _CLOCK, max_object_bytes=settings.max_object_bytes)
    return Reader(Routes(settings.table_name, clients.dynamodb, _CLOCK), origin, _make_tier, _CLOCK)


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Answer one request of the front door; always well-formed, never an exception."""
    if _is_traced():
        return _traced_handler()(event, context)  # type: ignore[no-any-return]
    return _handle(event, context)


def _handle(event: dict[str, Any], context: Any) -> dict[str, Any]:
    method = "GET"
    try:
        arrived = arrival(event)
        method = arrived.method
        return answer(event, _respond(arrived, context))
    except RefusedRequestError as refusal:
        refused = error_response(refusal.status, refusal.code, refusal.message, method=method, headers=refusal.headers)
        return answer(event, refused)
    except Exception:
        logger().exception("the proxy failed")
        message = "the proxy failed; its log has the reason. Try again"
        return answer(event, error_response(503, "ProxyFailed", message, method=method))


def _respond(arrived: Arrival, context: Any) -> Response:
    at_us = _CLOCK.now_us()
    request_id = arrived.request_id or str(getattr(context, "aws_request_id", ""))
    return _reader().read(read_request(arrived, request_id=request_id, at_us=at_us))


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
