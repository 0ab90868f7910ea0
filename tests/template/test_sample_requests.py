"""The sample requests of the HTTP API are what its routes make of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from burstcache_local.front.http_events import Route, match_route
from support.project import ROOT

_SAMPLES = sorted((ROOT / "events/proxy").glob("http_api_*.json"))


@pytest.mark.parametrize("path", _SAMPLES, ids=lambda path: path.stem)
def test_a_sample_has_the_route_and_the_parameters_that_the_api_sends(
    resources: dict[str, dict[str, Any]], path: Path
) -> None:
    keys = [part["Properties"]["RouteKey"] for part in resources.values() if part["Type"] == "AWS::ApiGatewayV2::Route"]
    routes = sorted((Route.parse(key, "proxy") for key in keys), key=lambda route: route.rank)
    sample = json.loads(path.read_text())

    found = match_route(routes, sample["requestContext"]["http"]["method"], sample["rawPath"])

    assert found is not None
    route, parameters = found
    assert (sample["routeKey"], sample.get("pathParameters", {})) == (route.key, parameters)
    assert sample["requestContext"]["routeKey"] == route.key
