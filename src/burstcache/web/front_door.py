"""The two kinds of front door: an HTTP API (payload format 2.0) and an Application Load Balancer."""

from __future__ import annotations

import re
from binascii import a2b_base64, b2a_base64
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, TypeVar
from urllib.parse import parse_qsl, unquote_to_bytes

from burstcache.core.errors import RefusedRequestError
from burstcache.web.headers import public_headers
from burstcache.web.response import Response

Event = Mapping[str, Any]
_T = TypeVar("_T")
_NOT_SENT = re.compile("[\ud800-\udfff\N{REPLACEMENT CHARACTER}]")


@dataclass(frozen=True, slots=True)
class Arrival:
    """An incoming request: path and query decoded, header names in lower case.

    `request_id` is empty if the front door sends none. `claims` come from the token, which the HTTP API has verified.
    """

    method: str
    path: str
    query: tuple[tuple[str, str], ...]
    headers: dict[str, str]
    request_id: str
    claims: Mapping[str, str] = field(default_factory=dict)


def arrival(event: Any) -> Arrival:
    """Parse an event of either front door, or raise RefusedRequestError (400)."""
    if not isinstance(event, dict):
        raise _no_front_door()
    context = _mapping(event.get("requestContext"))
    if "elb" in context:
        return _from_load_balancer(event)
    if event.get("version") == "2.0" and isinstance(context.get("http"), dict):
        return _from_http_api(event, context)
    raise _no_front_door()


def body_in(event: Event) -> bytes:
    """Decode the body of an event of either front door.

    Raises:
        RefusedRequestError: 400. The front door has altered a text body, or the base64 is invalid.
    """
    body, headers = str(event.get("body") or ""), _mapping(event.get("headers"))
    if event.get("isBase64Encoded"):
        try:
            return a2b_base64(body, strict_mode=True)
        except ValueError:
            raise RefusedRequestError(
                400, "UnknownEvent", "the event's body is marked as base64, but is not base64"
            ) from None
    data = body.encode(errors="surrogatepass")
    lengths = [str(value) for name, value in headers.items() if name.lower() == "content-length"]
    # Invalid UTF-8 arrives as replacement characters. Bytes in another charset may arrive as valid text.
    if _NOT_SENT.search(body) or lengths not in ([], [str(len(data))]):
        accepted = "UTF-8, another Content-Type, or a PUT to a URL that POST gives"
        message = f"the body is of a text type, but not UTF-8; accepted: {accepted}"
        raise RefusedRequestError(400, "BodyNotUtf8", message)
    return data


def answer(event: Any, response: Response) -> dict[str, Any]:
    """Format the response for the event's front door, with a binary body in base64."""
    is_base64 = bool(response.body) and not response.is_text
    body = b2a_base64(response.body, newline=False).decode("ascii") if is_base64 else response.body.decode()
    headers = public_headers(response.headers)
    message: dict[str, Any] = {"statusCode": response.status, "isBase64Encoded": is_base64, "body": body}
    if isinstance(event, dict) and "elb" in _mapping(event.get("requestContext")):
        message["statusDescription"] = f"{response.status} {_reason(response.status)}"
        if "multiValueHeaders" in event:
            message["multiValueHeaders"] = {name: [value] for name, value in headers.items()}
            return message
    message["headers"] = headers
    return message


def _from_http_api(event: Event, context: Event) -> Arrival:
    # The HTTP API has decoded the path once, and truncated it at an encoded '?'. It forwards the query unchanged.
    path = str(event.get("rawPath", ""))
    stage = context.get("stage", "$default")
    if stage != "$default":
        path = path.removeprefix(f"/{stage}")
    return Arrival(
        method=str(context["http"].get("method", "")).upper(),
        path=path,
        query=_query(str(event.get("rawQueryString", ""))),
        headers={str(name).lower(): str(value) for name, value in _mapping(event.get("headers")).items()},
        request_id=str(context.get("requestId", "")),
        claims=_claims(context),
    )


def _claims(context: Event) -> dict[str, str]:
    claims = _mapping(_mapping(_mapping(context.get("authorizer")).get("jwt")).get("claims"))
    return {name: value for name, value in claims.items() if isinstance(value, str)}


def _from_load_balancer(event: Event) -> Arrival:
    # A load balancer forwards path and query unchanged. It has no request id, and clients can forge its trace id.
    parameters = _pairs(event, "multiValueQueryStringParameters", "queryStringParameters")
    headers: dict[str, str] = {}
    for name, value in _pairs(event, "multiValueHeaders", "headers"):
        name = name.lower()
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return Arrival(
        method=str(event.get("httpMethod", "")).upper(),
        path=_decode_strictly(lambda: unquote_to_bytes(str(event.get("path", ""))).decode(), "path"),
        query=_query("&".join(f"{name}={value}" for name, value in parameters)),
        headers=headers,
        request_id="",
    )


def _pairs(event: Event, many: str, single: str) -> Iterable[tuple[str, str]]:
    if isinstance(event.get(many), dict):
        lists = ((name, values) for name, values in event[many].items() if isinstance(values, list))
        return [(str(name), str(value)) for name, values in lists for value in values]
    return [(str(name), str(value)) for name, value in _mapping(event.get(single)).items()]


def _query(text: str) -> tuple[tuple[str, str], ...]:
    return tuple(_decode_strictly(lambda: parse_qsl(text, keep_blank_values=True, errors="strict"), "query"))


def _decode_strictly(decode: Callable[[], _T], part: str) -> _T:
    try:
        return decode()
    except ValueError:
        message = f"the {part} is not UTF-8; accepted: UTF-8, percent-encoded"
        raise RefusedRequestError(400, "KeyNotUtf8", message) from None


def _mapping(value: Any) -> Event:
    return value if isinstance(value, dict) else {}


def _reason(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Unknown"


def _no_front_door() -> RefusedRequestError:
    message = "the event is not from a front door; accepted: HTTP API (payload format 2.0) or Application Load Balancer"
    return RefusedRequestError(400, "UnknownEvent", message)
