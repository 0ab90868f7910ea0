"""A client reads in the local run what the front door and boto3 read: the same bytes, headers and errors."""

from __future__ import annotations

import asyncio
import http.client
import json
import logging
import multiprocessing
import signal
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote, urlsplit

import pytest
from botocore.exceptions import ClientError

import burstcache
from burstcache.client import AsyncClient, Client, Object
from burstcache.client.configuration import OUTPUT, VARIABLE
from burstcache.client.requests import RequestBuilder
from burstcache.core import errors
from burstcache.core.messages.operations import Hold
from burstcache.web.headers import object_headers, public_headers
from burstcache_local.cloud import LocalCloud, LocalOptions
from burstcache_local.faults import CallFault
from burstcache_local.signed_requests import Refusal
from support.clock import ManualClock
from support.policies import THESIS
from support.processes import REDIS, signal_named
from support.roles import role_with
from support.waiting import LIMIT_S, until

BODY = bytes(range(256)) * 40
_STATUS = {
    errors.NotModifiedError: 304,
    errors.ObjectNotFoundError: 404,
    errors.PreconditionFailedError: 412,
    errors.RangeNotSatisfiableError: 416,
}


@dataclass(frozen=True)
class Answer:
    """Answer to a read. Of an error only the status."""

    status: int
    body: bytes = b""
    headers: frozenset[tuple[str, str]] = frozenset()

    @classmethod
    def of(cls, status: int, body: bytes, headers: Any) -> Answer:
        kept = public_headers(object_headers(headers))
        kept |= {name: value for name, value in headers.items() if name == "content-range"}
        return cls(status, body, frozenset(kept.items())) if status in (200, 206) else cls(status)


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCloud]:
    """Room for the keys of all tests. They stay in their cache functions unless a test has the node running."""
    parameters = THESIS | {"PolicyOverrides": "redis_threshold=90", "MaxHotKeys": "50"}
    options = LocalOptions(boot_s=0.2, stop_s=0.2, run_dir=tmp_path_factory.mktemp("logs"), parameters=parameters)
    with LocalCloud(options) as running:
        yield running


@pytest.fixture(scope="module")
def variables(cloud: LocalCloud) -> Iterator[None]:
    """The environment of a program that was given the stack's output to paste, and a role that may read."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv(VARIABLE, cloud.outputs[OUTPUT])
        environment.setenv("AWS_ENDPOINT_URL", cloud.endpoint_url)
        environment.setenv("AWS_ACCESS_KEY_ID", role_with(cloud, "ReaderPolicyArn"))
        environment.setenv("AWS_SECRET_ACCESS_KEY", "local")
        yield


@pytest.fixture(scope="module")
def client(variables: None) -> Iterator[Client]:
    """A client without a memory, so that tests see the tiers behind it."""
    with Client(memory_bytes=0) as client:
        yield client


@pytest.fixture(scope="module")
def remembering(variables: None) -> Iterator[Client]:
    with Client() as client:
        yield client


def put(cloud: LocalCloud, key: str, body: bytes = BODY) -> datetime:
    s3 = cloud.client("s3")
    s3.put_object(
        Bucket=cloud.bucket_name,
        Key=key,
        Body=body,
        ContentType="image/x-burst",
        ContentLanguage="de",
        CacheControl="max-age=5",
        Metadata={"owner": "me", "name": "a b"},
    )
    written: datetime = s3.head_object(Bucket=cloud.bucket_name, Key=key)["LastModified"]
    return written


def by_client(client: Client, method: str, key: str, arguments: dict[str, Any]) -> Answer:
    try:
        found = client.get(key, **arguments) if method == "GET" else client.head(key, **arguments)
        return Answer.of(206 if "content-range" in found.headers else 200, found.body, found.headers)
    except errors.BurstcacheError as error:
        return Answer(_STATUS[type(error)])


def by_boto3(cloud: LocalCloud, method: str, key: str, arguments: dict[str, Any]) -> Answer:
    s3 = cloud.client("s3")
    named = {"".join(map(str.capitalize, name.split("_"))): value for name, value in arguments.items()}
    try:
        ask = s3.get_object if method == "GET" else s3.head_object
        found = ask(Bucket=cloud.bucket_name, Key=key, **named)
    except ClientError as error:
        return Answer(error.response["ResponseMetadata"]["HTTPStatusCode"])
    metadata = found["ResponseMetadata"]
    body = found["Body"].read() if method == "GET" else b""
    return Answer.of(metadata["HTTPStatusCode"], body, metadata["HTTPHeaders"])


def by_front_door(cloud: LocalCloud, method: str, key: str, arguments: dict[str, Any]) -> Answer:
    request = RequestBuilder(ManualClock()).make(method, key, **arguments)
    headers = dict(request.headers) | ({"range": str(request.range)} if request.range else {})
    connection = http.client.HTTPConnection(urlsplit(cloud.front_url).netloc, timeout=LIMIT_S)
    connection.request(method, f"/objects?key={quote(key, safe='')}", headers=headers)
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return Answer.of(answer.status, body, {name.lower(): value for name, value in answer.headers.items()})


CASES: dict[str, Callable[[str, datetime], dict[str, Any]]] = {
    "whole": lambda etag, at: {},
    "first bytes": lambda etag, at: {"range": "bytes=0-99"},
    "last bytes": lambda etag, at: {"range": "bytes=-10"},
    "open range": lambda etag, at: {"range": "bytes=10000-"},
    "beyond the end": lambda etag, at: {"range": "bytes=99999-"},
    "the one wanted": lambda etag, at: {"if_match": etag},
    "not the one wanted": lambda etag, at: {"if_match": '"other"'},
    "known": lambda etag, at: {"if_none_match": etag},
    "not known": lambda etag, at: {"if_none_match": '"other"'},
    "known, of a range": lambda etag, at: {"if_none_match": etag, "range": "bytes=0-1"},
    "not modified since": lambda etag, at: {"if_modified_since": at},
    "modified since": lambda etag, at: {"if_modified_since": at - timedelta(days=1)},
    "unmodified since": lambda etag, at: {"if_unmodified_since": at},
    "not unmodified since": lambda etag, at: {"if_unmodified_since": at - timedelta(days=1)},
}


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize("tier", ["s3", "lambda", "memory"])
def test_a_client_reads_what_the_front_door_and_boto3_read(
    cloud: LocalCloud, client: Client, remembering: Client, tier: str, method: str
) -> None:
    compare(cloud, remembering if tier == "memory" else client, tier, method)


def compare(cloud: LocalCloud, client: Client, tier: str, method: str) -> None:
    """Ask all three for every case, once the client has the key from that tier."""
    key = f"contract/{tier}/{method}/ä ?"
    at = put(cloud, key)
    if tier != "s3":
        until(lambda: client.get(key).tier == tier)
    etag = client.head(key).etag

    for name, arguments in CASES.items():
        if method == "HEAD" and "range" in arguments(etag, at):
            continue
        request = arguments(etag, at)
        answer = by_client(client, method, key, request)
        assert answer == by_front_door(cloud, method, key, request), name
        assert answer == by_boto3(cloud, method, key, request), name


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_a_missing_object_is_missing_everywhere(cloud: LocalCloud, client: Client, method: str) -> None:
    answers = [
        by_client(client, method, "absent", {}),
        by_front_door(cloud, method, "absent", {}),
        by_boto3(cloud, method, "absent", {}),
    ]

    assert answers == [Answer(404)] * 3


@dataclass(frozen=True, slots=True)
class CountedFault(CallFault):
    """A fault that counts the calls that it affects."""

    calls: list[str] = field(default_factory=list)

    def affects(self, service: str, operation: str, path: str) -> bool:
        is_affected = CallFault.affects(self, service, operation, path)
        self.calls.extend([operation] if is_affected else [])
        return is_affected


def test_an_error_of_s3_is_passed_on_after_the_retries_of_client_and_proxy(cloud: LocalCloud, client: Client) -> None:
    put(cloud, "failing")
    slow_down = Refusal("SlowDown", "503 Slow Down", "made by a fault")
    # Cache functions may still be loading what tests before this one have read.
    fault = CountedFault("s3", frozenset({"GetObject"}), path="/failing", refusal=slow_down)

    with cloud.faults.inject_call_fault(fault):
        with pytest.raises(errors.OriginUnavailableError, match="SlowDown"):
            client.get("failing")
        by_door = by_front_door(cloud, "GET", "failing", {})

    assert by_door.status == 503
    assert fault.calls == ["GetObject"] * (3 + 2)
    assert client.get("failing").body == BODY


def test_an_object_too_large_for_a_cache_comes_from_s3_itself(cloud: LocalCloud, client: Client) -> None:
    body = b"x" * (5 << 20)
    put(cloud, "large", body)

    found = client.get("large")

    assert (found.tier, found.body == body) == ("s3", True)


def test_a_key_gets_hot_by_what_a_client_reads(cloud: LocalCloud, client: Client) -> None:
    put(cloud, "hot")

    until(lambda: client.get("hot").is_hit)

    assert client.get("hot").body == BODY


def test_many_keys_are_read_in_the_order_of_the_call(cloud: LocalCloud, client: Client) -> None:
    keys = [f"many/{number}" for number in (3, 1, 2)]
    for key in keys:
        put(cloud, key, key.encode())

    found = client.get_many([*keys, "many/absent", keys[0]], return_errors=True)

    assert list(found) == [*keys, "many/absent"]
    assert [found[key].body for key in keys] == [key.encode() for key in keys]  # type: ignore[union-attr]
    assert isinstance(found["many/absent"], errors.ObjectNotFoundError)
    with pytest.raises(errors.ObjectNotFoundError, match="many/absent"):
        client.get_many([*keys, "many/absent"])


def test_threads_share_a_client(cloud: LocalCloud, client: Client) -> None:
    put(cloud, "shared")
    until(lambda: client.get("shared").tier == "lambda")
    bodies: list[bytes] = []

    threads = [threading.Thread(target=lambda: bodies.append(client.get("shared").body)) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT_S)

    assert bodies == [BODY] * 16


def test_tasks_share_a_client(cloud: LocalCloud, variables: None) -> None:
    put(cloud, "tasks")

    async def read() -> list[Object]:
        async with AsyncClient() as client:
            assert (await client.head("tasks")).size_bytes == len(BODY)
            with pytest.raises(errors.ObjectNotFoundError):
                await client.get("absent")
            assert list(await client.get_many(["tasks", "absent"], return_errors=True)) == ["tasks", "absent"]
            return await asyncio.gather(*(client.get("tasks") for _ in range(64)))

    found = asyncio.run(read())

    assert {each.body for each in found} == {BODY}


def test_a_client_serves_inside_a_running_event_loop(cloud: LocalCloud, client: Client) -> None:
    put(cloud, "notebook")
    until(lambda: client.get("notebook").tier == "lambda")

    async def cell() -> Object:
        return client.get("notebook")

    assert asyncio.run(cell()).tier == "lambda"


def _read_in_child(client: Client, key: str, answers: Any) -> None:
    answers.put(client.get(key).body)
    client.close()


def test_a_forked_process_reads_with_its_parents_client(cloud: LocalCloud, client: Client) -> None:
    put(cloud, "forked")
    client.get("forked")
    fork = multiprocessing.get_context("fork")
    answers = fork.SimpleQueue()

    child = fork.Process(target=_read_in_child, args=(client, "forked", answers))
    child.start()
    body = answers.get()
    child.join(LIMIT_S)

    assert (body, child.exitcode) == (BODY, 0)
    assert client.get("forked").body == BODY


def test_a_client_reads_on_where_the_front_door_is_refused_for_lack_of_concurrency(
    cloud: LocalCloud, client: Client
) -> None:
    put(cloud, "hot")
    put(cloud, "cold")
    until(lambda: client.get("hot").tier == "lambda")

    with cloud.out_of_concurrency():
        refused = by_front_door(cloud, "GET", "hot", {})
        found = [client.get(key) for key in ("hot", "cold", "cold", "cold")]

    assert refused.status == 503
    assert [(each.body, each.tier) for each in found] == [(BODY, "lambda")] + [(BODY, "s3")] * 3
    assert by_front_door(cloud, "GET", "cold", {}).status == 200


def test_a_closed_client_opens_again(cloud: LocalCloud, variables: None) -> None:
    put(cloud, "reopened")
    client = Client()

    for _ in range(2):
        assert client.get("reopened").body == BODY
        client.close()


def test_a_bucket_is_read_without_a_stack(cloud: LocalCloud, variables: None, caplog: pytest.LogCaptureFixture) -> None:
    at = put(cloud, "alone")

    with caplog.at_level(logging.WARNING), Client(bucket=cloud.bucket_name) as client:
        found = client.get("alone")

    assert (found.body, found.last_modified, found.metadata["owner"]) == (BODY, at.astimezone(UTC), "me")
    assert caplog.messages == []


def test_a_wrapped_boto3_client_heats_a_key_gets_hits_and_reads_what_it_writes(
    cloud: LocalCloud, client: Client
) -> None:
    put(cloud, "wrapped")
    s3 = burstcache.wrap(cloud.client("s3"), client=client)

    def read() -> tuple[bytes, str]:
        answer = s3.get_object(Bucket=cloud.bucket_name, Key="wrapped")
        return answer["Body"].read(), answer["ResponseMetadata"]["HTTPHeaders"].get("x-cache-tier", "s3")

    assert read() == (BODY, "s3")
    assert until(lambda: (found := read())[1] == "lambda" and found) == (BODY, "lambda")
    s3.put_object(Bucket=cloud.bucket_name, Key="wrapped", Body=b"new")
    assert read() == (b"new", "s3")


@pytest.fixture(scope="module")
def writer(cloud: LocalCloud, variables: None) -> Iterator[Client]:
    """A client of a program that may write."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("AWS_ACCESS_KEY_ID", role_with(cloud, "ReaderPolicyArn", "WriterPolicyArn"))
        with Client(memory_bytes=0) as writer:
            yield writer


@pytest.mark.parametrize("tier", ["s3", "lambda"])
def test_what_a_client_writes_is_read_by_others_once_it_is_answered(
    cloud: LocalCloud, client: Client, writer: Client, tier: str
) -> None:
    write(cloud, client, writer, tier)


def write(cloud: LocalCloud, client: Client, writer: Client, tier: str) -> None:
    """Write to a key that others read from a tier, and delete it."""
    key = f"written/{tier}"
    put(cloud, key)
    if tier != "s3":
        until(lambda: client.get(key).tier == tier)

    for number in range(20):
        body = f"{number}".encode()
        written = writer.put(key, body, content_type="text/plain")
        found = client.get(key)
        assert (found.body, found.etag, found.content_type) == (body, written.etag, "text/plain")
        assert by_front_door(cloud, "GET", key, {}).body == body
    writer.delete(key)

    for reader in (client, writer):
        with pytest.raises(errors.ObjectNotFoundError):
            reader.get(key)
    assert by_front_door(cloud, "GET", key, {}).status == 404


def test_a_write_is_answered_while_the_relay_is_frozen(cloud: LocalCloud, client: Client, writer: Client) -> None:
    write_during(cloud, client, writer, "lambda", "nats-server")


def write_during(cloud: LocalCloud, client: Client, writer: Client, tier: str, frozen: str) -> None:
    """Write to a key in a tier that is frozen, and goes on with its copy as soon as that is answered."""
    key = f"frozen/{tier}"
    put(cloud, key)
    until(lambda: client.get(key).tier == tier)

    signal_named(frozen, signal.SIGSTOP)
    try:
        writer.put(key, b"new")
    finally:
        signal_named(frozen, signal.SIGCONT)

    with Client(memory_bytes=0) as another:  # which has answered no version of it
        assert [another.get(key).body for _ in range(5)] == [b"new"] * 5
    assert client.get(key).body == b"new"
    assert by_front_door(cloud, "GET", key, {}).body == b"new"


def test_a_program_that_may_only_read_is_refused_by_s3(client: Client, refusals: list[str]) -> None:
    with pytest.raises(errors.AccessDeniedError, match="refuses to write"):
        client.put("refused", b"")

    assert "s3:PutObject" in refusals.pop()


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_a_client_reads_from_a_node_what_the_front_door_and_boto3_read(
    cloud: LocalCloud, client: Client, method: str
) -> None:
    # The last tests: from now on keys go to the node at once.
    hold = Hold(op="hold", node="node-1", for_s=600)
    control = cloud.outputs["RedisControlFunctionName"]
    cloud.client("lambda").invoke(FunctionName=control, Payload=json.dumps(hold).encode())

    compare(cloud, client, "redis", method)


def test_what_a_client_writes_to_a_key_on_a_node_is_read_by_others_once_it_is_answered(
    cloud: LocalCloud, client: Client, writer: Client
) -> None:
    write(cloud, client, writer, "redis")


def test_a_write_is_answered_while_redis_is_frozen(cloud: LocalCloud, client: Client, writer: Client) -> None:
    write_during(cloud, client, writer, "redis", REDIS)
