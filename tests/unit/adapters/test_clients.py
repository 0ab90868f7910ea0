"""The clients' profiles: how long a caller waits, and how often it asks."""

from __future__ import annotations

from io import BytesIO
from typing import Any

import boto3
import pytest
from botocore.awsrequest import AWSPreparedRequest, AWSResponse
from botocore.compat import HTTPHeaders
from botocore.config import Config
from botocore.exceptions import ClientError, ConnectionClosedError, ReadTimeoutError
from urllib3 import HTTPResponse

from burstcache.adapters.clients import _EXCEPTIONS, Clients, Profile, _config
from support.servers import Failing, Silence

_SESSION = b"""<CreateSessionResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Credentials>
<SessionToken>session-token</SessionToken><SecretAccessKey>secret</SecretAccessKey><AccessKeyId>key</AccessKeyId>
<Expiration>2099-01-01T00:00:00Z</Expiration></Credentials></CreateSessionResult>"""

_CONFLICT = (
    b'{"__type": "com.amazonaws.dynamodb.v20120810#TransactionConflictException",'
    b' "message": "Transaction is ongoing for the item"}'
)


@pytest.fixture(autouse=True)
def region(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")


def tries_and_wait_s(profile: Profile, service: str) -> tuple[int, int]:
    config = Clients(profile).make(service).meta.config
    return config.retries["total_max_attempts"], config.read_timeout


def test_a_read_asks_every_service_once() -> None:
    assert tries_and_wait_s("read", "dynamodb") == (1, 1)
    assert tries_and_wait_s("read", "s3") == (1, 20)


def test_a_function_is_never_invoked_twice() -> None:
    assert tries_and_wait_s("patient", "lambda") == (1, 100)


@pytest.mark.parametrize("profile", ["read", "write", "control", "patient"])
def test_s3_that_is_slow_is_not_asked_twice(profile: Profile, monkeypatch: pytest.MonkeyPatch) -> None:
    quick = _config(read_timeout_s=1, tries=3).merge(Config(read_timeout=0.05))
    monkeypatch.setitem(_EXCEPTIONS, (profile, "s3"), quick)

    with Silence() as silence:
        session = boto3.Session("access-key", "secret-key")
        s3 = Clients(profile, session=session, endpoint_urls={"": f"http://{silence.address}"}).s3
        with pytest.raises(ReadTimeoutError):
            s3.get_object(Bucket="b", Key="k")

        assert silence.connections() == 1


def s3_at(address: str, profile: Profile) -> Any:
    session = boto3.Session("access-key", "secret-key")
    return Clients(profile, session=session, endpoint_urls={"": f"http://{address}"}).s3


@pytest.mark.parametrize("profile", ["read", "write"])
def test_what_s3_answers_a_read_is_passed_on_at_once(profile: Profile) -> None:
    with Failing() as s3:
        with pytest.raises(ClientError, match="503"):
            s3_at(s3.address, profile).get_object(Bucket="b", Key="k")

        assert s3.requests == 1


@pytest.mark.parametrize("profile", ["read", "write"])
def test_a_read_whose_connection_was_lost_asks_once_more(profile: Profile) -> None:
    with Failing(hangs_up=True) as s3:
        with pytest.raises(ConnectionClosedError):
            s3_at(s3.address, profile).get_object(Bucket="b", Key="k")

        assert s3.requests == 2


@pytest.fixture
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("botocore.endpoint.time.sleep", lambda _: None)
    for name in ("AWS_RETRY_MODE", "AWS_MAX_ATTEMPTS"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.usefixtures("no_pauses")
@pytest.mark.parametrize("hangs_up", [True, False], ids=["connection lost", "503"])
def test_a_program_asks_s3_as_often_as_boto3s_standard_retries(hangs_up: bool) -> None:
    with Failing(hangs_up=hangs_up) as s3:
        with pytest.raises((ConnectionClosedError, ClientError)):
            s3_at(s3.address, "caller").get_object(Bucket="b", Key="k")

        assert s3.requests == 3


@pytest.mark.usefixtures("no_pauses")
@pytest.mark.parametrize(
    ("variables", "tries"),
    [({"AWS_MAX_ATTEMPTS": "2"}, 2), ({"AWS_RETRY_MODE": "adaptive", "AWS_MAX_ATTEMPTS": "4"}, 4)],
)
def test_a_program_says_by_boto3s_variables_how_often_it_asks(
    variables: dict[str, str], tries: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)

    config = s3_at("localhost:1", "caller").meta.config

    assert config.retries["total_max_attempts"] == tries
    assert config.retries["mode"] == variables.get("AWS_RETRY_MODE", "standard")


def test_a_program_has_checksums_of_s3_checked_as_boto3_does() -> None:
    assert s3_at("localhost:1", "caller").meta.config.response_checksum_validation == "when_supported"
    assert s3_at("localhost:1", "read").meta.config.response_checksum_validation == "when_required"


def dynamodb_answering(answers: list[tuple[int, bytes]]) -> Any:
    """Return a client that gets these answers, one after the other."""
    session = boto3.Session("access-key", "secret-key")
    client = Clients("control", session=session).dynamodb

    def answer(request: AWSPreparedRequest, **_: object) -> Any:
        status, body = answers.pop(0)
        return AWSResponse(request.url, status, HTTPHeaders(), HTTPResponse(BytesIO(body), preload_content=False))

    client.meta.events.register("before-send.dynamodb", answer)
    return client


def test_a_write_to_a_row_that_is_in_a_transaction_is_made_after_it() -> None:
    answers = [(400, _CONFLICT), (400, _CONFLICT), (200, b"{}")]

    dynamodb_answering(answers).put_item(TableName="t", Item={"pk": {"S": "KEY#1"}})

    assert answers == []


def test_a_row_that_is_in_one_transaction_after_the_other_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    waits_s: list[float] = []
    monkeypatch.setattr("botocore.endpoint.time.sleep", waits_s.append)
    answers = [(400, _CONFLICT)] * 10

    with pytest.raises(ClientError, match="TransactionConflictException"):
        dynamodb_answering(answers).put_item(TableName="t", Item={"pk": {"S": "KEY#1"}})

    assert len(answers) == 4
    assert 0.3 < sum(waits_s) < 1


def test_a_condition_that_does_not_hold_is_not_asked_for_again() -> None:
    answers = [(400, _CONFLICT.replace(b"TransactionConflict", b"ConditionalCheckFailed")), (200, b"{}")]

    with pytest.raises(ClientError, match="ConditionalCheckFailedException"):
        dynamodb_answering(answers).put_item(TableName="t", Item={"pk": {"S": "KEY#1"}})

    assert len(answers) == 1


def test_who_may_wait_longer_asks_more_often() -> None:
    waits = [tries_and_wait_s(profile, "ssm") for profile in ("read", "control", "patient")]

    assert waits == sorted(waits)
    assert len(set(waits)) == 3


def test_a_client_is_made_once_and_reaches_the_endpoint_of_its_service() -> None:
    clients = Clients("control", endpoint_urls={"": "http://127.0.0.1:1", "lambda": "http://127.0.0.1:2"})

    assert clients.dynamodb is clients.dynamodb
    assert clients.dynamodb.meta.endpoint_url == "http://127.0.0.1:1"
    assert clients.functions.meta.endpoint_url == "http://127.0.0.1:2"


@pytest.mark.parametrize(
    ("url", "is_dual_stack", "reached"),
    [
        ("", "true", "https://dynamodb.eu-central-1.api.aws"),  # on AWS, in the network
        ("", "false", "https://dynamodb.eu-central-1.amazonaws.com"),
        ("http://127.0.0.1:1", "false", "http://127.0.0.1:1"),
    ],
)
def test_an_empty_endpoint_is_none(monkeypatch: pytest.MonkeyPatch, url: str, is_dual_stack: str, reached: str) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", url)
    monkeypatch.setenv("AWS_USE_DUALSTACK_ENDPOINT", is_dual_stack)

    clients = Clients("read", session=boto3.Session("access-key", "secret-key", region_name="eu-central-1"))

    assert clients.dynamodb.meta.endpoint_url == reached


def test_a_directory_bucket_is_reached_in_a_session_over_its_own_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_USE_DUALSTACK_ENDPOINT", "true")  # as for all functions in the network
    session = boto3.Session("access-key", "secret-key", region_name="us-east-1")
    express = Clients("read", session=session).express
    sent: list[AWSPreparedRequest] = []

    def answer(request: AWSPreparedRequest, **_: object) -> Any:
        sent.append(request)
        body = HTTPResponse(BytesIO(_SESSION if len(sent) == 1 else b""), preload_content=False)
        return AWSResponse(request.url, 200, HTTPHeaders(), body)

    express.meta.events.register("before-send.s3", answer)
    express.put_object(Bucket="copies--use1-az4--x-s3", Key="hash", Body=b"copy", IfNoneMatch="*")

    create_session, put = sent
    host = "https://copies--use1-az4--x-s3.s3express-use1-az4.us-east-1.amazonaws.com"
    assert (create_session.method, create_session.url) == ("GET", f"{host}/?session")
    assert (put.method, put.url) == ("PUT", f"{host}/hash")
    assert put.headers["x-amz-s3session-token"] == b"session-token"


def test_how_often_one_environment_says_is_not_how_often_the_next_one_tries(monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for tries in ("1", "5", ""):
        if tries:
            monkeypatch.setenv("AWS_MAX_ATTEMPTS", tries)
        else:
            monkeypatch.delenv("AWS_MAX_ATTEMPTS")
        session = boto3.Session("id", "secret", region_name="eu-central-1")
        config: Any = Clients("caller", session=session).make("s3").meta.config
        found.append(config.retries.get("total_max_attempts"))

    assert found == [1, 5, None]
