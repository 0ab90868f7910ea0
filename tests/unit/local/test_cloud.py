"""The local cloud as it ends."""

from __future__ import annotations

import asyncio

import pytest
from botocore.exceptions import EndpointConnectionError

from burstcache_local.cloud import LocalCloud

_QUEUE = "arn:aws:sqs:eu-central-1:123456789012:FailedEvents"


def test_a_record_without_a_queue_is_an_error_until_the_cloud_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(queue_arn: str, message: str) -> None:
        raise EndpointConnectionError(endpoint_url=queue_arn)

    cloud = LocalCloud()
    monkeypatch.setattr(cloud, "_send_message", refuse)

    with pytest.raises(EndpointConnectionError):
        asyncio.run(cloud._send(_QUEUE, "record"))
    cloud.stop()
    asyncio.run(cloud._send(_QUEUE, "record"))
