"""Contract of result stores: bytes come back, failures have two names and stay within the time-out."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from typing import TYPE_CHECKING, Any

import boto3
import pytest
import redis
from botocore.config import Config
from moto import mock_aws

from burstcache.adapters.clock import SystemClock
from burstcache.core.errors import ResultStoreDownError, ResultStoreRefusalError
from burstcache.results import Cache, cached
from burstcache.results.layers import PROBE_EVERY_S, Layers, SharedLayer
from burstcache.results.leases import LEASE_MS
from burstcache.results.stores.deadline import connect_within
from burstcache.results.stores.redis_store import RedisStore
from burstcache.results.stores.s3_store import S3Store
from burstcache.results.stores.store import Store
from support.clock import ManualClock
from support.faults import failing
from support.servers import RedisServer, Silence, Trickle
from support.waiting import LIMIT_S, free_port, until

if TYPE_CHECKING:
    from types_boto3_s3.client import S3Client

KEY, OTHER = "result:module.function:0123", "result:module.function:4567"
MOST_BYTES = 1 << 20


@pytest.fixture
def in_redis(server: RedisServer) -> Iterator[RedisStore]:
    store = RedisStore.at(f"redis://127.0.0.1:{server.port}", SystemClock(), timeout_s=LIMIT_S)
    with redis.Redis(port=server.port) as client:
        client.flushall()
    yield store
    store.close()


@pytest.fixture
def s3() -> Iterator[S3Client]:
    with mock_aws():
        client = boto3.client("s3", "us-east-1")
        client.create_bucket(Bucket="results")
        yield client


@pytest.fixture
def in_s3(s3: S3Client) -> S3Store:
    return S3Store(lambda: s3, "results", "kept/here/", timeout_s=LIMIT_S)


@pytest.fixture(params=["in_redis", "in_s3"])
def store(request: pytest.FixtureRequest) -> Store:
    found: Store = request.getfixturevalue(request.param)
    return found


@pytest.mark.parametrize("size_bytes", [1, MOST_BYTES])
def test_what_was_put_comes_back_whole(store: Store, size_bytes: int) -> None:
    data = bytes(range(256)) * (size_bytes // 256) + b"\r\n" * (size_bytes % 256)

    store.put(KEY, data, kept_ms=60_000)

    assert store.get(KEY, most_bytes=MOST_BYTES) == data
    assert store.get(OTHER, most_bytes=MOST_BYTES) is None


def test_of_what_is_larger_than_an_entry_only_the_start_is_read(store: Store) -> None:
    store.put(KEY, bytes(1000), kept_ms=60_000)

    assert store.get(KEY, most_bytes=10) == bytes(11)


def test_a_later_put_replaces_the_former(store: Store) -> None:
    store.put(KEY, b"old", kept_ms=60_000)
    store.put(KEY, b"new", kept_ms=60_000)

    assert store.get(KEY, most_bytes=MOST_BYTES) == b"new"


def test_what_was_forgotten_is_not_there(store: Store) -> None:
    store.put(KEY, b"data", kept_ms=60_000)

    store.forget(KEY)
    store.forget(OTHER)

    assert store.get(KEY, most_bytes=MOST_BYTES) is None


def test_a_store_answers_a_ping_and_can_be_used_after_a_close(store: Store) -> None:
    store.ping()
    store.close()
    store.put(KEY, b"data", kept_ms=60_000)

    assert store.get(KEY, most_bytes=MOST_BYTES) == b"data"


def test_redis_forgets_an_entry_when_its_time_is_over(in_redis: RedisStore) -> None:
    in_redis.put(KEY, b"data", kept_ms=5)

    assert until(lambda: in_redis.get(KEY, most_bytes=MOST_BYTES) is None)


def test_one_caller_at_a_time_has_the_lease(in_redis: RedisStore) -> None:
    assert in_redis.take_lease(KEY, "first-token", lease_ms=LEASE_MS, most_bytes=MOST_BYTES) == (True, False, None)
    assert in_redis.take_lease(KEY, "second-token", lease_ms=LEASE_MS, most_bytes=MOST_BYTES) == (False, False, None)

    in_redis.put(KEY, b"data", kept_ms=60_000)
    in_redis.return_lease(KEY, "first-token", open_ms=0)

    assert in_redis.take_lease(KEY, "second-token", lease_ms=LEASE_MS, most_bytes=MOST_BYTES) == (True, False, b"data")


def test_a_lease_without_a_result_is_open_for_a_while(in_redis: RedisStore) -> None:
    in_redis.take_lease(KEY, "first-token", lease_ms=LEASE_MS, most_bytes=MOST_BYTES)
    in_redis.return_lease(KEY, "first-token", open_ms=50)

    assert in_redis.take_lease(KEY, "second-token", lease_ms=LEASE_MS, most_bytes=MOST_BYTES) == (False, True, None)
    assert until(lambda: in_redis.take_lease(KEY, "second-token", lease_ms=LEASE_MS, most_bytes=MOST_BYTES)[0])


def test_a_lease_ends_unless_it_is_renewed_and_only_its_holder_renews_it(
    in_redis: RedisStore, server: RedisServer
) -> None:
    def left_ms(token: str, renewed_ms: int) -> int:
        in_redis.renew_lease(KEY, token, lease_ms=renewed_ms)
        with redis.Redis(port=server.port) as client:
            return int(client.pttl(f"{KEY}:lease"))

    in_redis.take_lease(KEY, "first-token", lease_ms=LEASE_MS, most_bytes=MOST_BYTES)

    assert 0 < left_ms("second-token", 100 * LEASE_MS) <= LEASE_MS
    assert left_ms("first-token", 100 * LEASE_MS) > LEASE_MS
    in_redis.return_lease(KEY, "second-token", open_ms=0)
    assert not in_redis.take_lease(KEY, "second-token", lease_ms=LEASE_MS, most_bytes=MOST_BYTES)[0]


def test_a_full_redis_refuses_to_store_and_goes_on_answering(in_redis: RedisStore, server: RedisServer) -> None:
    in_redis.put(OTHER, b"data", kept_ms=60_000)
    with redis.Redis(port=server.port) as client:
        client.config_set("maxmemory", 1)
        try:
            with pytest.raises(ResultStoreRefusalError, match="maxmemory"):
                in_redis.put(KEY, b"data", kept_ms=60_000)
            assert in_redis.get(OTHER, most_bytes=MOST_BYTES) == b"data"
        finally:
            client.config_set("maxmemory", 0)


def test_a_client_of_s3_is_made_before_anybody_waits_and_anew_in_another_process(
    s3: S3Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    made_in: list[int] = []

    def make() -> S3Client:
        made_in.append(os.getpid())
        return s3

    store = S3Store(make, "results", "", timeout_s=LIMIT_S)
    assert made_in == [os.getpid()]

    store.ping()
    monkeypatch.setattr(os, "getpid", lambda: 1)
    store.ping()
    store.ping()

    assert made_in == [made_in[0], 1]


def test_a_refusal_of_s3_is_no_outage(in_s3: S3Store, s3: S3Client) -> None:
    with failing(s3, "GetObject", code="AccessDenied", status=403), pytest.raises(ResultStoreRefusalError):
        in_s3.get(KEY, most_bytes=MOST_BYTES)
    with failing(s3, "ListObjectsV2", code="AccessDenied", status=403):
        in_s3.ping()


def test_a_bucket_that_is_missing_is_asked_for_once_until_it_exists(s3: S3Client) -> None:
    probes: list[Callable[[], None]] = []
    clock = ManualClock(1_000_000.0)
    layer = SharedLayer(S3Store(lambda: s3, "later", "", timeout_s=LIMIT_S), clock, start=probes.append)
    square = cached(backend=Cache(Layers(None, [layer]), clock))(lambda number: number * number)

    assert [square(number) for number in range(5)] == [0, 1, 4, 9, 16]
    assert layer.failures == 1

    clock.sleep(PROBE_EVERY_S)
    square(5)
    probes.pop()()  # the bucket is still missing
    clock.sleep(PROBE_EVERY_S)
    s3.create_bucket(Bucket="later")
    square(6)
    probes.pop()()

    assert (square(7), square(7)) == (49, 49)
    assert square.results.stats() == {"computed": 8, "s3": 1}
    assert (layer.failures, probes) == (1, [])


@pytest.mark.parametrize("code", ["InvalidAccessKeyId", "ExpiredToken"])
def test_s3_is_down_for_a_caller_whom_it_does_not_know(in_s3: S3Store, s3: S3Client, code: str) -> None:
    with failing(s3, "GetObject", code=code, status=403), pytest.raises(ResultStoreDownError, match=code):
        in_s3.get(KEY, most_bytes=MOST_BYTES)
    with failing(s3, "ListObjectsV2", code=code, status=403), pytest.raises(ResultStoreDownError, match=code):
        in_s3.ping()


def test_nobody_listens() -> None:
    store = RedisStore.at(f"redis://127.0.0.1:{free_port()}", SystemClock(), timeout_s=LIMIT_S)

    with pytest.raises(ResultStoreDownError, match="does not answer"):
        store.get(KEY, most_bytes=MOST_BYTES)


TIMEOUT_S = 0.2
ENOUGH_S = 30.0  # a busy machine wakes a thread late; without the deadline it would be 60, or for ever


def took_s(call: Callable[[], object]) -> float:
    begun_s = time.monotonic()
    with pytest.raises(ResultStoreDownError):
        call()
    return time.monotonic() - begun_s


def test_a_silent_redis_is_waited_for_once() -> None:
    with Silence() as silence:
        store = RedisStore.at(f"redis://{silence.address}", SystemClock(), timeout_s=TIMEOUT_S)

        assert TIMEOUT_S * 0.9 < took_s(lambda: store.get(KEY, most_bytes=MOST_BYTES)) < ENOUGH_S
        assert silence.connections() == 1


class Hurried(SystemClock):
    """A clock by which a twentieth of the limit has passed whenever it is looked at."""

    def __init__(self) -> None:
        self.looks = 0

    def monotonic_s(self) -> float:
        self.looks += 1
        return self.looks * LIMIT_S / 20


def test_a_redis_that_answers_a_byte_at_a_time_is_waited_for_no_longer() -> None:
    clock = Hurried()
    with Trickle() as trickle:
        store = RedisStore.at(f"redis://127.0.0.1:{trickle.port}", clock, timeout_s=LIMIT_S)

        with pytest.raises(ResultStoreDownError, match="does not answer: TimeoutError"):
            store.get(KEY, most_bytes=MOST_BYTES)

    assert 20 <= clock.looks <= 25


def test_a_host_whose_name_is_looked_up_for_long_is_waited_for_no_longer(
    server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_answer, look_up = threading.Event(), socket.getaddrinfo

    def late(*arguments: Any, **named: Any) -> Any:
        may_answer.wait(LIMIT_S)
        return look_up(*arguments, **named)

    store = RedisStore.at(f"redis://localhost:{server.port}", SystemClock(), timeout_s=TIMEOUT_S)
    monkeypatch.setattr(socket, "getaddrinfo", late)

    assert TIMEOUT_S * 0.9 < took_s(lambda: store.get(KEY, most_bytes=MOST_BYTES)) < ENOUGH_S
    may_answer.set()
    store.ping()
    store.close()


def test_a_connection_that_is_made_too_late_is_closed() -> None:
    may_connect = threading.Event()
    made, other = socket.socketpair()

    def connect() -> socket.socket:
        may_connect.wait(LIMIT_S)
        return made

    with other, pytest.raises(TimeoutError):
        connect_within(connect, 0.01)
    may_connect.set()

    assert until(lambda: made.fileno() == -1)


def test_a_redis_that_reads_nothing_is_waited_for_no_longer() -> None:
    with Silence() as silence:
        store = RedisStore.at(f"redis://{silence.address}", SystemClock(), timeout_s=TIMEOUT_S)

        assert TIMEOUT_S * 0.9 < took_s(lambda: store.put(KEY, bytes(32 << 20), kept_ms=1000)) < ENOUGH_S


def test_a_silent_s3_is_waited_for_once() -> None:
    with Silence() as silence:
        client = boto3.client(
            "s3",
            "us-east-1",
            endpoint_url=f"http://{silence.address}",
            aws_access_key_id="i",
            aws_secret_access_key="s",
            config=Config(retries={"total_max_attempts": 1}),  # the thread ends with the silence
        )
        store = S3Store(lambda: client, "results", "", timeout_s=TIMEOUT_S)

        assert TIMEOUT_S * 0.9 < took_s(lambda: store.get(KEY, most_bytes=MOST_BYTES)) < ENOUGH_S


def test_a_connection_that_was_lost_is_made_anew_at_once(in_redis: RedisStore, server: RedisServer) -> None:
    in_redis.put(KEY, b"data", kept_ms=60_000)
    with redis.Redis(port=server.port) as client:
        client.client_kill_filter(_type="normal", skipme=True)

    assert in_redis.get(KEY, most_bytes=MOST_BYTES) == b"data"


class Colour(Enum):
    RED = "red"


@dataclass(frozen=True)
class Product:
    name: str
    price: Decimal
    colours: frozenset[Colour]
    made: datetime


PRODUCT = Product("tea", Decimal("1.10"), frozenset(Colour), datetime(2026, 1, 2, tzinfo=UTC))


def test_another_process_finds_a_result_of_annotated_classes_in_every_place(store: Store) -> None:
    def process() -> Any:
        clock = SystemClock()
        layers = Layers(None, [SharedLayer(store, clock)])

        @cached(backend=Cache(layers, clock), version="1")
        def find(name: str) -> dict[str, Product | None]:
            return {name: PRODUCT}

        return find

    one, other = process(), process()

    assert one("tea") == other("tea") == {"tea": PRODUCT}
    assert (one.results.stats(), other.results.stats()) == ({"computed": 1}, {store.name: 1})


def test_an_unknown_class_in_a_place_is_computed_once_and_found_then(store: Store) -> None:
    def process() -> Any:
        clock = SystemClock()
        layers = Layers(None, [SharedLayer(store, clock)])
        return cached(backend=Cache(layers, clock), version="1")(lambda name: PRODUCT)

    one, other = process(), process()

    assert [one("tea"), other("tea"), other("tea")] == [PRODUCT] * 3
    assert other.results.stats() == {"computed": 1, store.name: 1}
