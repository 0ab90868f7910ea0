"""Reads that the proxy's own memory serves, and what it does when the digest cannot be read."""

from __future__ import annotations

import io
from typing import Any

import pytest
from botocore.awsrequest import AWSResponse
from botocore.compat import HTTPHeaders
from botocore.exceptions import ReadTimeoutError

from burstcache.adapters.circuit_breaker import OPEN_S
from burstcache.adapters.clock import SystemClock
from burstcache.adapters.digest_table import DigestTable
from burstcache.core.digest import REFRESH_AT
from burstcache.core.keys import key_hash
from support.answers import body_of
from support.aws import TABLE, clients
from support.read_path import Cloud, Environment, MakeEntry, Node, Relay

_BOUND_S = 2.0


@pytest.fixture
def cached(cloud: Cloud, environment: Environment) -> Cloud:
    """The key `a`, which the proxy has in its memory."""
    environment(MEMORY_MB="16")
    cloud.put("a", b"old")
    assert _get(cloud) == (b"old", "s3")
    assert _get(cloud) == (b"old", "memory")
    return cloud


class DynamoDb:
    """Fault injector between the proxy and DynamoDB: it can throttle, or stay silent until the time-out."""

    def __init__(self, environment: Environment) -> None:
        self.queries = 0
        self.failure = ""
        self._clock = environment.clock
        events: Any = environment.clients.dynamodb.meta.events
        events.register_first("before-send.dynamodb.Query", self._answer)

    def _answer(self, request: Any, **_: object) -> AWSResponse | None:
        self.queries += 1
        if self.failure == "silent":
            self._clock.sleep(1)
            raise ReadTimeoutError(endpoint_url=request.url)
        if self.failure == "throttled":
            body = b'{"__type": "com.amazonaws.dynamodb.v20120810#ThrottlingException"}'
            return AWSResponse(request.url, 400, HTTPHeaders(), io.BytesIO(body))
        return None


@pytest.fixture
def dynamodb(cached: Cloud, environment: Environment) -> DynamoDb:
    return DynamoDb(environment)


def _get(cloud: Cloud, key: str = "a", **headers: str) -> tuple[bytes, str]:
    message = cloud.get(key, **headers)
    return body_of(message), message["headers"]["x-cache-tier"]


def _written(cloud: Cloud, key: str, body: bytes) -> None:
    """Write an object, and announce it as Redis control does."""
    cloud.put(key, body)
    DigestTable(TABLE, clients().dynamodb).announce([key_hash(key)], now_us=SystemClock().now_us())


def test_memory_serves_within_the_bound_and_forgets_what_the_digest_names(cached: Cloud) -> None:
    _written(cached, "a", b"new")
    within = _get(cached)
    cached.clock.sleep(_BOUND_S + 0.1)

    assert within == (b"old", "memory")
    assert [_get(cached), _get(cached)] == [(b"new", "s3"), (b"new", "memory")]


def test_an_environment_that_slept_asks_before_memory_serves(cached: Cloud) -> None:
    _written(cached, "a", b"new")
    cached.clock.sleep(3600)

    assert _get(cached) == (b"new", "s3")


@pytest.mark.parametrize("failure", ["silent", "throttled"])
def test_memory_without_a_digest_is_confirmed_by_s3(cached: Cloud, dynamodb: DynamoDb, failure: str) -> None:
    dynamodb.failure = failure
    cached.clock.sleep(_BOUND_S + 0.1)
    confirmed = _get(cached)
    cached.put("a", b"new")
    cached.clock.sleep(_BOUND_S + 0.1)

    assert confirmed == (b"old", "memory")
    assert _get(cached) == (b"new", "s3")
    assert _get(cached) == (b"new", "memory")
    assert dynamodb.queries == 2  # one for each time that what is known was too old: then its breaker is open


def test_memory_forgets_what_changed_while_the_digest_could_not_be_read(cached: Cloud, dynamodb: DynamoDb) -> None:
    _written(cached, "b", b"other")  # the first change of all drops every entry
    cached.clock.sleep(_BOUND_S + 0.1)
    _get(cached)
    _get(cached, "b")
    dynamodb.failure = "throttled"
    cached.clock.sleep(_BOUND_S + 0.1)
    _get(cached)
    _written(cached, "a", b"new")
    dynamodb.failure = ""
    cached.clock.sleep(OPEN_S)

    assert (_get(cached), _get(cached, "b")) == ((b"new", "s3"), (b"other", "memory"))


def test_a_thousand_reads_in_ten_seconds_ask_dynamodb_seven_times(cached: Cloud, dynamodb: DynamoDb) -> None:
    for _ in range(1000):
        cached.clock.sleep(0.01)
        _get(cached)

    assert 6 <= dynamodb.queries <= 7


def test_a_query_that_fails_before_the_bound_breaks_no_read(cached: Cloud, dynamodb: DynamoDb) -> None:
    dynamodb.failure = "throttled"
    cached.clock.sleep(_BOUND_S * REFRESH_AT)

    assert _get(cached) == (b"old", "memory")
    assert dynamodb.queries == 1


def test_s3_alone_confirms_each_read_of_a_strong_proxy(
    cloud: Cloud, environment: Environment, reported: list[Any]
) -> None:
    environment(MEMORY_MB="16", MAX_STALE_MS="0")
    cloud.put("a", b"old")
    seen = [_get(cloud), _get(cloud)]
    cloud.put("a", b"new")
    seen += [_get(cloud), _get(cloud)]

    assert seen == [(b"old", "s3"), (b"old", "memory"), (b"new", "s3"), (b"new", "memory")]
    assert reported == []


def test_object_that_is_gone_is_not_served_by_a_strong_proxy(cloud: Cloud, environment: Environment) -> None:
    environment(MEMORY_MB="16", MAX_STALE_MS="0")
    cloud.put("a", b"old")
    _get(cloud)
    cloud.delete("a")

    assert cloud.get("a")["statusCode"] == 404


def test_ranges_and_conditions_are_served_from_memory(cached: Cloud) -> None:
    etag = cached.get("a")["headers"]["etag"]

    assert _get(cached, range="bytes=1-2") == (b"ld", "memory")
    assert cached.get("a", if_none_match=etag)["statusCode"] == 304
    assert cached.get("a", "HEAD")["headers"]["x-cache-tier"] == "memory"


def test_hits_are_reported_in_one_event_and_not_one_by_one(cached: Cloud, environment: Environment) -> None:
    for key in "bc":
        cached.put(key, b"other")
        _get(cached, key)
    for _ in range(20):
        for key in "abc":
            assert _get(cached, key)[1] == "memory"
    environment.close()

    (batch,) = [event["keys"] for event in environment.reported if "keys" in event]
    assert [served["key"] for served in batch] == ["a", "b", "c"]
    assert {len(served["requests"]) for served in batch} == {8}


def test_hits_of_a_key_in_redis_are_noted_there(cloud: Cloud, node: Node, environment: Environment) -> None:
    environment(MEMORY_MB="16")
    hash_ = cloud.put("a", b"body")
    _get(cloud)
    node.client.rpush(f"recent:{hash_}", 1)
    cloud.route("a", tier="redis", generation=7)
    cloud.clock.sleep(_BOUND_S + 0.1)
    served = [_get(cloud)[1] for _ in range(3)]
    environment.close()

    assert served == ["memory"] * 3
    assert node.recent("a") == [cloud.clock.now_us()] * 3 + [1]


def test_hits_of_a_key_in_the_lambda_tier_are_noted_by_its_cache_function(
    cloud: Cloud, relay: Relay, make_entry: MakeEntry, environment: Environment
) -> None:
    environment(MEMORY_MB="16")
    cloud.put("a", b"body")
    _get(cloud)
    holder = relay("a", make_entry(b"body"))
    cloud.route("a", tier="lambda")
    cloud.clock.sleep(_BOUND_S + 0.1)
    served = [_get(cloud)[1] for _ in range(3)]
    environment.close()

    assert served == ["memory"] * 3
    assert [len(message["served"]) for message in holder.seen] == [3]


def test_hits_that_nobody_can_note_break_no_read(cloud: Cloud, environment: Environment) -> None:
    environment(MEMORY_MB="16", REDIS_NODES="node-1=i-1@127.0.0.1:9")
    cloud.put("a", b"body")
    _get(cloud)
    cloud.node(phase="running", generation=7)
    cloud.route("a", tier="redis", generation=7)
    cloud.clock.sleep(_BOUND_S + 0.1)

    assert _get(cloud) == (b"body", "memory")
    environment.close()
