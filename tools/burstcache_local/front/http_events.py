"""Conversions between HTTP and the events of an HTTP API or an Application Load Balancer, without I/O.

Sources:
    API Gateway Developer Guide, "Create AWS Lambda proxy integrations for HTTP APIs" (payload format 2.0);
    Elastic Load Balancing Guide, "Use Lambda functions as targets of an Application Load Balancer".
"""

from __future__ import annotations

import base64
import binascii
import json
import os
import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, unquote

import orjson
import pybase64

from burstcache_local.functions import ACCOUNT

_TEXT_TYPE = re.compile(r"text/|application/(json|javascript|xml|x-www-form-urlencoded|[\w.+-]+\+(json|xml))")


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """A request as received, with path and query still encoded."""

    method: str
    raw_path: str
    raw_query: str
    headers: tuple[tuple[str, str], ...]
    body: bytes
    source_ip: str

    def joined_headers(self) -> dict[str, str]:
        """Return a dictionary that maps lower-case header names to comma-separated values."""
        joined: dict[str, str] = {}
        for name, value in self.headers:
            name = name.lower()
            joined[name] = f"{joined[name]},{value}" if name in joined else value
        return joined


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """The response to the client."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes


@dataclass(frozen=True, slots=True)
class Route:
    """One route of an HTTP API."""

    key: str  # "GET /objects/{key+}" or "$default"
    function: str
    method: str = "ANY"
    pattern: re.Pattern[str] | None = None  # None for $default

    @classmethod
    def parse(cls, key: str, function: str) -> Route:
        """Parse a route key."""
        method, _, path = key.partition(" ")
        if not path:
            return cls(key, function)
        expression = "".join(map(_expression, re.split(r"(\{[^}]+\})", path)))
        return cls(key, function, method, re.compile(expression, re.DOTALL))

    @property
    def rank(self) -> tuple[bool, bool, int, bool]:
        """Sort key for routes: full matches first, then {name}, then {name+}, then $default. A method precedes ANY."""
        return self.pattern is None, "+}" in self.key, self.key.count("{"), self.method == "ANY"


def match_route(routes: Iterable[Route], method: str, path: str) -> tuple[Route, dict[str, str]] | None:
    """Return the first route that matches a decoded path, and its path parameters.

    Args:
        routes: Routes, sorted by rank.
        method: HTTP method.
        path: Decoded path.
    """
    for route in routes:
        if route.pattern is None:
            return route, {}
        if route.method in ("ANY", method) and (found := route.pattern.fullmatch(path)):
            return route, found.groupdict()
    return None


def decoded_path(raw_path: str) -> str:
    """Decode a path like an HTTP API, which truncates the decoded path at the first question mark."""
    return unquote(raw_path, errors="replace").partition("?")[0]


def http_api_event(request: HttpRequest, route: Route, parameters: Mapping[str, str], *, api_id: str) -> dict[str, Any]:
    """Build an HTTP API event in payload format 2.0."""
    headers = request.joined_headers()
    cookies = [cookie.strip() for cookie in headers.pop("cookie", "").split(";") if cookie]
    path, at_s = decoded_path(request.raw_path), time.time()
    query: dict[str, str] = {}
    for name, value in parse_qsl(request.raw_query, keep_blank_values=True):
        query[name] = f"{query[name]},{value}" if name in query else value
    host = headers.get("host", "")
    optional = {"cookies": cookies, "queryStringParameters": query, "pathParameters": dict(parameters)}
    return {
        "version": "2.0",
        "routeKey": route.key,
        "rawPath": path,
        "rawQueryString": request.raw_query,
        "headers": headers,
        **{name: value for name, value in optional.items() if value},
        "requestContext": {
            "accountId": ACCOUNT,
            "apiId": api_id,
            "domainName": host,
            "domainPrefix": host.partition(".")[0],
            "http": {
                "method": request.method,
                "path": path,
                "protocol": "HTTP/1.1",
                "sourceIp": request.source_ip,
                "userAgent": headers.get("user-agent", ""),
            },
            "requestId": base64.b64encode(os.urandom(11)).decode().replace("/", "_"),
            "routeKey": route.key,
            "stage": "$default",
            "time": time.strftime("%d/%b/%Y:%H:%M:%S +0000", time.gmtime(at_s)),
            "timeEpoch": int(at_s * 1000),
        },
        **_body(request.body, headers),
    }


def alb_event(request: HttpRequest, *, target_group_arn: str, multi_value: bool) -> dict[str, Any]:
    """Build a load balancer event. Path and query stay encoded."""
    query = [pair.partition("=")[::2] for pair in request.raw_query.split("&") if pair]
    if multi_value:
        fields: dict[str, Any] = {"multiValueHeaders": {}, "multiValueQueryStringParameters": {}}
        for name, value in request.headers:
            fields["multiValueHeaders"].setdefault(name.lower(), []).append(value)
        for name, value in query:
            fields["multiValueQueryStringParameters"].setdefault(name, []).append(value)
        headers = request.joined_headers()
    else:
        headers = {name.lower(): value for name, value in request.headers}
        fields = {"headers": headers, "queryStringParameters": dict(query)}
    return {
        "requestContext": {"elb": {"targetGroupArn": target_group_arn}},
        "httpMethod": request.method,
        "path": request.raw_path,
        **fields,
        **({"body": "", "isBase64Encoded": False} | _body(request.body, headers)),
    }


def http_api_answer(body: bytes) -> HttpAnswer | None:
    """Convert the function's result into the client's response. Return None if the result is invalid."""
    try:
        returned = orjson.loads(body)
        if not isinstance(returned, dict) or "statusCode" not in returned:
            text = returned if isinstance(returned, str) else json.dumps(returned)
            return HttpAnswer(200, (("content-type", "application/json"),), text.encode())
        headers = [(name.lower(), _text(value)) for name, value in (returned.get("headers") or {}).items()]
        headers += [("set-cookie", cookie) for cookie in returned.get("cookies") or ()]
        if not any(name == "content-type" for name, _ in headers):
            headers.append(("content-type", "text/plain;charset=UTF-8"))
        return HttpAnswer(int(returned["statusCode"]), tuple(headers), _returned_body(returned))
    except (ValueError, TypeError, binascii.Error):
        return None


def alb_answer(body: bytes, *, multi_value: bool) -> HttpAnswer | None:
    """Convert the function's result into the client's response. Return None if the result is invalid."""
    try:
        returned = orjson.loads(body)
        if multi_value:
            pairs = (
                (name, value) for name, values in (returned.get("multiValueHeaders") or {}).items() for value in values
            )
        else:
            pairs = ((name, value) for name, value in (returned.get("headers") or {}).items())
        headers = tuple((name.lower(), _text(value)) for name, value in pairs)
        return HttpAnswer(int(returned["statusCode"]), headers, _returned_body(returned))
    except (ValueError, TypeError, KeyError, AttributeError, binascii.Error):
        return None


def _expression(part: str) -> str:
    if not part.startswith("{"):
        return re.escape(part)
    name = part.strip("{}")
    return f"(?P<{name[:-1]}>.+)" if name.endswith("+") else f"(?P<{name}>[^/]+)"


def _body(body: bytes, headers: Mapping[str, str]) -> dict[str, Any]:
    if not body:
        return {"isBase64Encoded": False}
    if _TEXT_TYPE.match(headers.get("content-type", "")) and "content-encoding" not in headers:
        try:
            return {"body": body.decode(), "isBase64Encoded": False}
        except UnicodeDecodeError:
            pass
    return {"body": base64.b64encode(body).decode(), "isBase64Encoded": True}


def _returned_body(returned: Mapping[str, Any]) -> bytes:
    body = returned.get("body") or ""
    text = body if isinstance(body, str) else json.dumps(body)
    return pybase64.b64decode(text, validate=True) if returned.get("isBase64Encoded") else text.encode()


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
