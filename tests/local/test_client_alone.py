"""A client that lacks rights, relay or network reads from S3, and says once what is missing."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from typing import Any, Literal

import boto3
import pytest
from botocore.exceptions import ClientError

from burstcache import logs
from burstcache.adapters.adaptive_timeout import AdaptiveTimeout
from burstcache.adapters.digest_table import DigestTable
from burstcache.client import Client
from burstcache.client.configuration import VARIABLE
from burstcache.core.errors import OriginUnavailableError
from burstcache.core.keys import key_hash
from burstcache.core.phases import KeyPhase
from burstcache.core.rows import KeyRow, NodeRow
from support.aws import BUCKET, BUS, REGION, TABLE, clients, make_stack, mocked_aws
from support.servers import Silence
from support.waiting import free_port

_KEYS = ("a", "b", "c")
_FAR_US = 2**62


@pytest.fixture(autouse=True)
def aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A stack whose table sends some keys to a relay and a node that the caller cannot reach."""
    log = logs.OnceLog(logging.getLogger("burstcache"))
    for user in ("adapters.digest_reader", "adapters.event_batches", "serve.tiers", "serve.s3_tier"):
        monkeypatch.setattr(f"burstcache.{user}.logger", lambda: log)
    defaults = AdaptiveTimeout.__init__.__kwdefaults__ or {}
    for limit in ("least_s", "most_s"):  # a busy machine reads the digest later than by the usual limit
        monkeypatch.setitem(defaults, limit, 5.0)
    with mocked_aws():
        make_stack()
        for key in _KEYS:
            clients().s3.put_object(Bucket=BUCKET, Key=key, Body=key.encode())
        yield


def variables(**changed: str) -> str:
    return json.dumps(
        {
            "AWS_REGION": REGION,
            "TABLE_NAME": TABLE,
            "BUCKET_NAME": BUCKET,
            "ORIGIN_PREFIX": "",
            "BUS_NAME": BUS,
            "RELAY_URL": "nats://127.0.0.1:9",
            "RELAY_USER": "proxy",
            "RELAY_PASSWORD_PARAMETER": "",
            "RELAY_CA_PEM": "",
            "REDIS_USER": "",
            "REDIS_PASSWORD_PARAMETER": "",
            "REDIS_CA_PEM": "",
            "REDIS_NODES": "node-1=i-1@127.0.0.1:9",
            "EXPRESS_BUCKET": "",
            "HIT_VALUE_USD_PER_MILLION": "10",
            "TAKES_GUESTS": "false",
            "ORIGIN_FUNCTION_NAME": "",
            "MAX_OBJECT_BYTES": "4194304",
            **changed,
        }
    )


def route_to(tier: Literal["lambda", "redis"]) -> None:
    """Have the digest send all keys to a cache function, or to a node that runs."""
    digest = DigestTable(TABLE, clients().dynamodb)
    phase: KeyPhase = "lambda" if tier == "lambda" else "redis_running"
    for key in _KEYS:
        row = KeyRow(key_hash(key), key, phase, epoch=1, tier=tier, node="node-1", generation=7, deadline_at_us=_FAR_US)
        digest.show_key(row)
    digest.show_node(NodeRow("node-1", "running", generation=7))


def refusing(service: str, operation: str) -> boto3.Session:
    """Return a session whose calls of one operation are refused, as IAM does it."""
    session = boto3.Session()
    message = f"User: arn:aws:iam::123456789012:user/me is not authorized to perform: {service}:{operation}"

    def refuse(**_: Any) -> None:
        raise ClientError({"Error": {"Code": "AccessDeniedException", "Message": message}}, operation)

    session.events.register(f"before-call.{service}.{operation}", refuse)
    return session


def read_all(
    monkeypatch: pytest.MonkeyPatch, session: boto3.Session | None = None, **changed: str
) -> list[tuple[str, bytes]]:
    """Read every key three times."""
    monkeypatch.setenv(VARIABLE, variables(**changed))
    with Client(session=session, memory_bytes=0) as client:
        found = [client.get(key) for key in _KEYS * 3]
    return [(each.tier, each.body) for each in found]


FROM_S3 = [("s3", key.encode()) for key in _KEYS * 3]


def the_line_of(caplog: pytest.LogCaptureFixture) -> str:
    """Return the only line. On a starved machine a refused connection may also time out, which is another cause."""
    (line,) = [line for line in caplog.messages if "Timeout" not in line] or caplog.messages
    return line


def test_with_all_rights_nothing_is_logged(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    assert read_all(monkeypatch) == FROM_S3
    assert caplog.messages == []


@pytest.mark.parametrize(("service", "operation"), [("dynamodb", "Query"), ("events", "PutEvents")])
def test_a_refused_right_is_named_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, service: str, operation: str
) -> None:
    assert read_all(monkeypatch, refusing(service, operation)) == FROM_S3

    (line,) = caplog.messages
    assert f"not authorized to perform: {service}:{operation}" in line


def test_a_table_that_is_not_there_is_named_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    assert read_all(monkeypatch, TABLE_NAME="absent") == FROM_S3

    (line,) = caplog.messages
    assert "ResourceNotFoundException" in line


def test_a_relay_that_is_closed_is_named_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    route_to("lambda")
    url = f"nats://127.0.0.1:{free_port()}"

    assert read_all(monkeypatch, RELAY_URL=url) == FROM_S3

    assert url in the_line_of(caplog)


def test_a_password_that_may_not_be_read_is_named_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    route_to("lambda")

    session = refusing("ssm", "GetParameter")
    assert read_all(monkeypatch, session, RELAY_PASSWORD_PARAMETER="arn:relay") == FROM_S3

    assert "GetParameter" in the_line_of(caplog)


@pytest.mark.parametrize("is_silent", [False, True], ids=["closed", "silent"])
def test_a_redis_out_of_reach_is_named_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, is_silent: bool
) -> None:
    route_to("redis")
    with Silence() as silence:
        address = silence.address if is_silent else f"127.0.0.1:{free_port()}"

        assert read_all(monkeypatch, REDIS_NODES=f"node-1=i-1@{address}") == FROM_S3

    assert "node-1 at 127.0.0.1" in the_line_of(caplog)


def test_an_s3_out_of_reach_is_the_callers_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, variables())
    url = f"http://127.0.0.1:{free_port()}"

    with Client(endpoint_urls={"s3": url}) as client, pytest.raises(OriginUnavailableError, match="'a': S3 cannot be"):
        client.get("a")
