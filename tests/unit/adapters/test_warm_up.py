"""Rehearsals: clients that have done what their first call would do, without a request."""

from __future__ import annotations

from typing import Any

import boto3
import pytest
from botocore.exceptions import EndpointConnectionError

from burstcache.adapters.clients import Clients
from burstcache.adapters.warm_up import warm_up

_NOWHERE = "http://127.0.0.1:9"


def client(service: str) -> Any:
    session = boto3.Session("access-key", "secret-key", region_name="eu-central-1")
    return Clients("read", session=session, endpoint_urls={"": _NOWHERE}).make(service)


# The calls that functions rehearse.
@pytest.mark.parametrize(
    ("service", "operation", "arguments"),
    [
        ("s3", "get_object", {"Bucket": "bucket", "Key": "key"}),
        ("events", "put_events", {"Entries": [{}]}),
        ("dynamodb", "update_item", {"TableName": "table", "Key": {}}),
    ],
)
def test_a_rehearsal_goes_well_where_nothing_listens(service: str, operation: str, arguments: dict[str, Any]) -> None:
    assert warm_up(getattr(client(service), operation), **arguments)


def test_after_a_rehearsal_the_service_is_asked() -> None:
    s3 = client("s3")
    warm_up(s3.get_object, Bucket="bucket", Key="key")

    with pytest.raises(EndpointConnectionError):
        s3.get_object(Bucket="bucket", Key="key")


def test_a_rehearsal_that_fails_changes_nothing() -> None:
    s3 = client("s3")

    assert not warm_up(s3.get_object, Bucket="bucket", Key=0)
    with pytest.raises(EndpointConnectionError):
        s3.get_object(Bucket="bucket", Key="key")
