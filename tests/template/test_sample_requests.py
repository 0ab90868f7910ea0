"""The sample requests of the HTTP API are what its routes make of them."""

from __future__ import annotations

import json
from base64 import b64decode
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from burstcache_local.front.http_events import HttpRequest, Route, decoded_path, http_api_event, match_route
from support.project import ROOT

_SAMPLES = sorted(path for folder in ("proxy", "writer") for path in (ROOT / "events" / folder).glob("http_api_*.json"))
_OF_ONE_REQUEST = ("requestId", "time", "timeEpoch")


def route(event: dict[str, str]) -> Route:
    """The route that an event of a function declares."""
    path, method = event["Path"], event["Method"]
    return Route.parse(path if path == "$default" else f"{method} {path}", "proxy")


@pytest.mark.parametrize("path", _SAMPLES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_sample_is_what_the_api_sends(functions: dict[str, dict[str, Any]], path: Path) -> None:
    names = ["ProxyFunction"] if path.parent.name == "proxy" else ["ProxyFunction", "WriterFunction"]
    events = [event for name in names for event in functions[name]["Events"].values()]
    routes = sorted((route(event["Properties"]) for event in events), key=lambda each: each.rank)
    sample = json.loads(path.read_text())
    context, body = sample["requestContext"], sample.get("body", "")
    request = HttpRequest(
        method=context["http"]["method"],
        raw_path=quote(sample["rawPath"]),
        raw_query=sample["rawQueryString"],
        headers=tuple(sample["headers"].items()),
        body=b64decode(body) if sample["isBase64Encoded"] else body.encode(),
        source_ip=context["http"]["sourceIp"],
    )

    found = match_route(routes, request.method, decoded_path(request.raw_path))
    assert found is not None
    sent = http_api_event(request, *found, api_id=context["apiId"])

    sent["requestContext"] |= {name: context[name] for name in _OF_ONE_REQUEST}
    assert sample == sent
