"""Errors name their cause: credentials, region, bucket, stack, and what is not worth another try."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import boto3
import pytest
from botocore.session import Session

from burstcache.adapters.object_store import ObjectResponse, origin_error
from burstcache.adapters.stack_outputs import stack_output
from burstcache.client import Client
from burstcache.client.configuration import OUTPUT
from burstcache.core.errors import (
    AccessDeniedError,
    BurstcacheError,
    InvalidSettingError,
    OriginError,
    OriginUnavailableError,
)
from support.aws import REGION, mocked_aws, session


@pytest.fixture
def no_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Session, "get_credentials", lambda _: None)


@pytest.mark.usefixtures("no_credentials")
@pytest.mark.parametrize("call", ["get", "head", "open", "put", "delete"])
def test_missing_credentials_are_named(call: str) -> None:
    client = Client(bucket="b", session=boto3.Session(region_name=REGION))

    with pytest.raises(OriginError, match="there are no valid credentials .*; accepted: ") as raised:
        getattr(client, call)(*(("key", b"") if call == "put" else ("key",)))

    assert type(raised.value) is OriginError
    assert "try again" not in str(raised.value)


def test_an_endpoint_that_is_not_there_is_named() -> None:
    session = boto3.Session("id", "secret", region_name=REGION)
    client = Client(bucket="b", session=session, endpoint_urls={"": "http://127.0.0.1:9"})
    client._backend.reader._origin._store._client.meta.events.register(  # type: ignore[attr-defined]
        "needs-retry.s3", lambda **_: None
    )

    with pytest.raises(OriginUnavailableError, match=r"'key': S3 cannot be reached: .*http://127\.0\.0\.1:9"):
        client.get("key")


@pytest.mark.parametrize(
    ("status", "code", "headers", "kind", "message"),
    [
        (301, "PermanentRedirect", {"x-amz-bucket-region": "eu-west-1"}, OriginError, "the bucket is in eu-west-1"),
        (400, "AuthorizationHeaderMalformed", {"x-amz-bucket-region": "eu-west-1"}, OriginError, "is in eu-west-1"),
        (400, "ExpiredToken", {}, OriginError, "credentials have expired"),
        (400, "RequestTimeout", {}, OriginUnavailableError, "RequestTimeout"),
        (
            403,
            "AccessDenied",
            {"x-amz-bucket-region": "eu-west-1"},
            AccessDeniedError,
            "the read of 'key': AccessDenied$",
        ),
        (403, "InvalidAccessKeyId", {}, AccessDeniedError, "AWS does not know these credentials"),
        (403, "InvalidObjectState", {}, OriginError, "archive class"),
        (403, "RequestTimeTooSkewed", {}, AccessDeniedError, "clock of this machine"),
        (404, "NoSuchBucket", {}, OriginError, "there is no such bucket"),
        (429, "TooManyRequests", {}, OriginUnavailableError, "429"),
        (503, "SlowDown", {}, OriginUnavailableError, "503 SlowDown"),
    ],
)
def test_an_answer_of_s3_says_what_it_is_about(
    status: int, code: str, headers: Mapping[str, str], kind: type[OriginError], message: str
) -> None:
    error = origin_error("key", ObjectResponse(status, headers, code))

    with pytest.raises(kind, match=message) as raised:
        raise error
    assert (type(error), raised.value.status, raised.value.code) == (kind, status, code)


# Stacks


@pytest.fixture
def stack() -> Iterator[None]:
    queue = {"Type": "AWS::SQS::Queue", "Properties": {}}
    body = {"Resources": {"Queue": queue}, "Outputs": {OUTPUT: {"Value": "{}"}}}
    with mocked_aws():
        session().client("cloudformation").create_stack(StackName="cache", TemplateBody=json.dumps(body))
        yield


@pytest.mark.usefixtures("stack")
@pytest.mark.parametrize(
    ("stack_name", "output", "message"),
    [
        ("nope", OUTPUT, f"stack_name='nope': there is no such stack in {REGION}"),
        ("cache", "StateSettings", "it has no databases; accepted: a stack whose parameter StateDatabases names them"),
        ("cache", "PoolSettings", "it has no pool; accepted: a stack with the parameter PoolMembers above 0"),
    ],
)
def test_what_a_stack_lacks_is_named_with_its_parameter(stack_name: str, output: str, message: str) -> None:
    with pytest.raises(InvalidSettingError, match=message):
        stack_output(stack_name, output, session(), {})


@pytest.mark.parametrize(
    "arguments",
    [{"endpoint_urls": {"": "nonsense"}}, {"session": boto3.Session("id", "secret")}],
    ids=["an endpoint that is none", "no region"],
)
def test_a_client_of_aws_that_cannot_be_made_is_an_invalid_setting(
    arguments: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_DEFAULT_REGION", "AWS_REGION", "BURSTCACHE_READER"):
        monkeypatch.delenv(name, raising=False)
    wanted: dict[str, Any] = {"bucket": "b"} if "endpoint_urls" in arguments else {"stack_name": "cache"}

    with pytest.raises(BurstcacheError, match=r"no client of AWS can be made|You must specify a region"):
        Client(**wanted, **arguments)
