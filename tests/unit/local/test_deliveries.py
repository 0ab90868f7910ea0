"""Deliveries of events that no function accepts or that a function failed on."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import EndpointConnectionError

from burstcache_local.deliveries import Destinations

_QUEUE = "arn:aws:sqs:eu-central-1:123456789012:FailedEvents"


def test_a_record_without_a_queue_is_an_error_until_the_cloud_ends() -> None:
    def refuse(service: str) -> None:
        raise EndpointConnectionError(endpoint_url=service)

    ends: list[bool] = []
    services: Any = SimpleNamespace(client=refuse)
    guard: Any = SimpleNamespace(failure_problem=lambda function, destination: "")
    destinations = Destinations(services, guard, lambda: bool(ends))

    with pytest.raises(EndpointConnectionError):
        asyncio.run(destinations.send_failure("function", _QUEUE, "record"))
    ends.append(True)
    asyncio.run(destinations.send_failure("function", _QUEUE, "record"))
