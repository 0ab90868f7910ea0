"""Objects above the limit, read through a pool whose members are tasks of its own event loop; S3 is moto's."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import threading
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from botocore.exceptions import ClientError, ResponseStreamingError
from hypothesis import given
from moto.backends import get_backend
from moto.core import DEFAULT_ACCOUNT_ID

import burstcache
from burstcache import logs
from burstcache.adapters.adaptive_timeout import AdaptiveTimeout
from burstcache.adapters.digest_reader import DigestReader, at_once
from burstcache.client import AsyncClient, Client
from burstcache.client.streams import open_object
from burstcache.core.digest import Digest
from burstcache.core.errors import (
    NotModifiedError,
    ObjectNotFoundError,
    PreconditionFailedError,
    RangeNotSatisfiableError,
)
from burstcache.core.pool.slices import Redundancy
from burstcache.core.slices import SliceNames
from burstcache.pool.open_pool import OpenPool
from burstcache.serve.large_objects import LargeObjects
from burstcache.serve.memory_tier import HeadCache
from burstcache.serve.part_source import PartSource
from burstcache.serve.reader import Reader
from burstcache.serve.slices import Slices
from burstcache.web.request import Request
from support.aws import BUCKET, REGION, mocked_aws, session
from support.boto3_calls import Requests
from support.clock import ManualClock
from support.pool import LocalPool, running_pool
from support.s3_itself import Answer, Moto, S3Request, Stored, arguments, right_answer
from support.searches import search
from support.waiting import LIMIT_S, until

if TYPE_CHECKING:
    from types_boto3_s3.client import S3Client

_SLICE = 300_000
_SIZE = 1_190_003
_LIMIT = 10_000
_ANY_MS = LIMIT_S * 1000  # that a read may be older, however busy the machine is


def body(version: int = 1) -> bytes:
    return random.Random(version).randbytes(_SIZE)


@dataclass
class Rig:
    """A bucket with an object, and a pool that is open while its client is."""

    s3: S3Client
    pools: list[LocalPool] = field(default_factory=list)

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncIterator[OpenPool]:
        async with running_pool(6) as pool:
            self.pools.append(pool)
            yield OpenPool(pool.reader, lambda: [Redundancy(4, 2)])

    def client(self, **arguments: Any) -> Client:
        return Client(bucket=BUCKET, s3=self.s3, pool=self.open, **{"memory_bytes": 0} | arguments)

    def put(self, version: int = 1) -> None:
        self.s3.put_object(Bucket=BUCKET, Key="key", Body=body(version))

    def age(self, by: timedelta) -> None:
        """Have the object be older than it is."""
        stored = get_backend("s3")[DEFAULT_ACCOUNT_ID]["aws"].get_object(BUCKET, "key")
        stored.last_modified -= by

    def await_slices(self, count: int) -> None:
        """Wait until the pool has all six chunks of that many slices, and no others."""
        (pool,) = self.pools
        until(lambda: [len(store) for store in pool.stores.values()] == [count] * 6)


@pytest.fixture
def rig(monkeypatch: pytest.MonkeyPatch) -> Iterator[Rig]:
    for user in ("core.pool.slices", "client.streams"):
        monkeypatch.setattr(f"burstcache.{user}.SLICE_BYTES", _SLICE)
    monkeypatch.setattr("burstcache.client.configuration._LIMIT_BYTES", _LIMIT)
    with mocked_aws():
        s3: S3Client = session().client("s3")
        s3.create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": REGION})
        rig = Rig(s3)
        rig.put()
        yield rig


def test_an_object_enters_the_pool_when_it_is_asked_for_again(rig: Rig) -> None:
    with rig.client(freshness="immutable") as client:
        first, second = client.get("key"), client.get("key")
        rig.await_slices(4)
        with Requests(rig.s3) as sent:
            third = client.get("key")

    assert [each.body == body() for each in (first, second, third)] == [True] * 3
    assert [(each.tier, each.is_hit) for each in (first, second, third)] == [
        ("s3", False),
        ("s3", False),
        ("pool", True),
    ]
    assert sent == []


def test_memory_has_no_empty_object_in_the_place_of_a_large_one(rig: Rig) -> None:
    async def read_by_tasks() -> list[bytes]:
        async with AsyncClient(bucket=BUCKET, s3=rig.s3, pool=rig.open) as client:
            return [(await client.get("key")).body for _ in range(2)]

    with rig.client() as client:
        client.get("key")
        many, head = client.get_many(["key"])["key"], client.head("key")

    assert asyncio.run(read_by_tasks()) == [body(), body()]
    assert many.body == body()
    assert (head.size_bytes, head.tier) == (_SIZE, "memory")


def test_of_a_range_only_the_slices_that_it_touches_are_read_and_stored(rig: Rig) -> None:
    part = slice(_SLICE - 10, _SLICE + 10)
    with rig.client(freshness="immutable") as client:
        found = [client.get("key", range=f"bytes={part.start}-{part.stop - 1}") for _ in range(3)]
        rig.await_slices(2)
        with Requests(rig.s3) as sent:
            found.append(client.get("key", range=f"bytes={part.start}-{part.stop - 1}"))

    assert {each.body for each in found} == {body()[part]}
    assert found[-1].tier == "pool"
    assert found[-1].headers["content-range"] == f"bytes {part.start}-{part.stop - 1}/{_SIZE}"
    assert sent == []


def test_reads_of_what_is_in_the_pool_are_answered_as_by_s3(rig: Rig) -> None:
    rig.age(timedelta(minutes=1))  # no date that is asked for with a second more is one to come
    s3 = Moto(rig.s3, BUCKET)
    stored = s3.stored("key")
    s3.close()
    tiers = set()

    with rig.client(freshness="immutable") as client:
        client.get("key")
        client.get("key")
        rig.await_slices(4)

        @search(100)
        @given(arguments())
        def ask(request: S3Request) -> None:
            right = right_answer(request, stored, now=stored.modified + timedelta(minutes=1))
            answer, tier = _answer(client, request, stored)
            tiers.add(tier)
            assert answer == (right if right.status != 304 else Answer(304, {"etag": stored.etag}))

        ask()

    assert "pool" in tiers


def _answer(client: Client, request: S3Request, stored: Stored) -> tuple[Answer, str]:
    """Return the client's result or error as an answer of S3."""
    headers = request.headers(stored)
    named: dict[str, Any] = {name.replace("-", "_"): value for name, value in headers.items()}
    dates = {name: parsedate_to_datetime(value) for name, value in named.items() if name.endswith("since")}
    try:
        found = client.get("key", **{**named, **dates})
    except NotModifiedError as error:
        return Answer(304, {"etag": error.etag}), ""
    except PreconditionFailedError:
        return Answer(412), ""
    except RangeNotSatisfiableError as error:
        return Answer(416, {"content-range": f"bytes */{error.size_bytes}"}), ""
    return Answer.of(206 if "content-range" in found.headers else 200, found.headers, found.body), found.tier


def test_only_the_hot_part_of_an_object_enters_the_pool(rig: Rig) -> None:
    with rig.client(freshness="immutable") as client:
        client.get("key")
        with client.open("key") as file:
            file.seek(2 * _SLICE + 5)
            assert file.read(10) == body()[2 * _SLICE + 5 :][:10]
        rig.await_slices(1)


def test_a_file_holds_what_describes_the_object_and_reads_the_version_that_was_opened(rig: Rig) -> None:
    with rig.client(freshness="immutable") as client, client.open("key") as file:
        data = b"".join(file.parts())

    assert data == body()
    assert file.head.size_bytes == _SIZE
    assert file.head.etag == client.head("key").etag
    assert file.tier == "s3"


def test_a_range_is_a_file_of_its_own(rig: Rig) -> None:
    with rig.client() as client, client.open("key", range="bytes=-400000") as file:
        assert file.read() == body()[-400_000:]


def test_a_small_object_is_a_file_too(rig: Rig) -> None:
    rig.s3.put_object(Bucket=BUCKET, Key="small", Body=b"two\nlines")
    with rig.client() as client, client.open("small") as file:
        assert list(file) == [b"two\n", b"lines"]


def test_an_object_that_is_not_there_cannot_be_opened(rig: Rig) -> None:
    with rig.client() as client, pytest.raises(ObjectNotFoundError):
        client.open("absent")


def test_without_a_pool_a_file_is_read_from_s3_by_range(rig: Rig) -> None:
    with Client(bucket=BUCKET, s3=rig.s3) as client, Requests(rig.s3) as sent, client.open("key") as file:
        file.seek(_SLICE)
        assert file.read() == body()[_SLICE:]

    assert (sent[0], file.head.tier) == ("HeadObject", "s3")


@pytest.mark.parametrize("memory_bytes", [0, 64 << 20])
def test_each_way_to_read_names_the_disk_whose_bytes_the_next_process_gets(
    rig: Rig, memory_bytes: int, tmp_path: Path
) -> None:
    stored = random.Random(1).randbytes(9 << 20)
    rig.s3.put_object(Bucket=BUCKET, Key="large", Body=stored)

    def opened() -> Client:
        return Client(bucket=BUCKET, s3=rig.s3, disk=tmp_path / "slices", memory_bytes=memory_bytes)

    with opened() as client:
        client.get("large")
    until(lambda: len(list(tmp_path.glob("**/*.slice"))) > len(stored) // (256 << 10))  # and the head
    with opened() as client:
        got = client.get("large")
    with opened() as client, client.open("large") as file:
        head, body_read = file.head, file.read()
    with opened() as client:
        wrapped = burstcache.wrap(rig.s3, client=client).get_object(Bucket=BUCKET, Key="large")
        headers, wrapped_body = wrapped["ResponseMetadata"]["HTTPHeaders"], wrapped["Body"].read()

    assert (got.tier, head.tier, file.tier, headers["x-cache-tier"]) == ("disk",) * 4
    assert (got.is_hit, head.is_hit, headers["x-cache"]) == (True, True, "hit")
    assert got.body == body_read == wrapped_body == stored


@pytest.mark.parametrize("is_warm", [False, True])
def test_an_object_that_is_overwritten_while_it_is_streamed_is_never_mixed(rig: Rig, is_warm: bool) -> None:
    with rig.client(freshness="immutable") as client:
        if is_warm:  # slices of the old version are in the pool: all of them, so it can be read to its end
            client.get("key")
            client.get("key")
            rig.await_slices(4)
        with client.open("key") as file:
            start = file.read(10)
            rig.put(2)
            if is_warm:
                assert start + file.read() == body(1)
            else:
                with pytest.raises(PreconditionFailedError, match="no longer the version"):
                    file.read()


def test_old_slices_in_the_pool_are_not_mixed_with_new_ones_from_s3(rig: Rig) -> None:
    old_range = f"bytes=0-{_SLICE - 1}"
    with rig.client(freshness="immutable") as client:
        for _ in range(3):
            client.get("key", range=old_range)
        rig.await_slices(1)
        rig.put(2)

        assert client.get("key", range=old_range).body == body(1)[:_SLICE]
        assert client.get("key").body == body(2)


def test_a_bounded_read_sees_a_write_after_its_bound(rig: Rig) -> None:
    with rig.client(max_stale_ms=1) as client:
        for version in (1, 2, 3):
            rig.put(version)
            time.sleep(0.002)
            assert client.get("key").body == body(version)


def test_a_strong_read_sees_every_write_and_is_served_by_the_pool(rig: Rig) -> None:
    with rig.client(freshness="strong") as client:
        client.get("key")
        client.get("key")
        rig.await_slices(4)
        third = client.get("key")
        rig.put(2)

        assert (third.tier, third.body) == ("pool", body(1))
        assert client.get("key").body == body(2)


def test_an_object_that_becomes_small_or_is_deleted_is_read_as_such(rig: Rig) -> None:
    with rig.client(freshness="strong") as client:
        client.get("key")
        rig.s3.put_object(Bucket=BUCKET, Key="key", Body=b"small")
        assert client.get("key").body == b"small"
        rig.put()
        client.get("key")
        rig.s3.delete_object(Bucket=BUCKET, Key="key")
        with pytest.raises(ObjectNotFoundError):
            client.get("key")


def test_conditions_are_those_of_s3(rig: Rig) -> None:
    with rig.client(freshness="immutable") as client:
        etag = client.get("key").etag
        assert client.get("key", if_match=etag).body == body()
        with pytest.raises(NotModifiedError):
            client.get("key", if_none_match=etag)
        with pytest.raises(PreconditionFailedError):
            client.open("key", if_match='"another"')
        with pytest.raises(RangeNotSatisfiableError) as error:
            client.get("key", range=f"bytes={_SIZE}-")

    assert error.value.size_bytes == _SIZE


@pytest.mark.slow
def test_what_is_remembered_of_an_object_refuses_no_read(rig: Rig) -> None:
    with rig.client(max_stale_ms=_ANY_MS) as client:
        for version in (1, 2):
            etag = rig.s3.put_object(Bucket=BUCKET, Key="key", Body=body(version))["ETag"]
            assert client.get("key", if_match=etag).body == body(version)
        rig.s3.put_object(Bucket=BUCKET, Key="key", Body=body(3) + b"more")
        assert client.get("key", range=f"bytes={_SIZE}-").body == b"more"
        etag = rig.s3.put_object(Bucket=BUCKET, Key="key", Body=body(4))["ETag"]
        with client.open("key", if_match=etag) as file:
            assert file.read() == body(4)


def test_what_is_remembered_of_an_object_that_never_changes_decides(rig: Rig) -> None:
    with rig.client(freshness="immutable") as client:
        client.get("key")
        with Requests(rig.s3) as sent, pytest.raises(PreconditionFailedError):
            client.get("key", if_match='"another"')

    assert sent == []


@pytest.mark.parametrize("is_opened", [False, True])
def test_reads_of_an_object_that_is_known_have_a_wait_each(is_opened: bool) -> None:
    clock = ManualClock()
    patience = AdaptiveTimeout(clock=clock)

    def read_digest() -> Digest:
        with patience.waiting():
            clock.sleep(patience.wait_s / 2)
        return Digest()

    digest = DigestReader(read_digest, clock, start=at_once, adaptive_timeout=patience)
    heads = HeadCache(1 << 20, above_bytes=_LIMIT)
    no_origin: Any = None
    reader = Reader(digest, no_origin, lambda _: pytest.fail("no tier"), clock, heads=heads, adaptive_timeout=patience)
    source = PartSource(no_origin, None, reader.forget, clock)
    large = reader.large = LargeObjects(Slices(source, SliceNames("", BUCKET), clock), _LIMIT)
    request = Request("GET", "key", "0" * 32, {"if-none-match": '"e"'}, None, "request-1", 0)
    reader.prefetch_digest()
    reader.local_cache.note_head(request, {"etag": '"e"', "content-length": str(_SIZE)}, reader.local_cache.ticket())
    patience.begin()  # of a read in this thread before

    for _ in range(10):
        clock.sleep(60)  # the digest is read anew
        assert open_object(reader, large, request) if is_opened else reader.read(request)
        assert not patience.is_exhausted


def test_a_pool_that_cannot_be_opened_is_named_once_and_s3_serves(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    @contextlib.asynccontextmanager
    async def closed() -> AsyncIterator[OpenPool]:
        raise OSError("no route to members")
        yield

    log = logs.OnceLog(logging.getLogger("burstcache"))
    monkeypatch.setattr("burstcache.client.pool.logger", lambda: log)
    with Client(bucket=BUCKET, s3=rig.s3, pool=closed, memory_bytes=0) as client:
        found = [client.get("key") for _ in range(3)]

    assert [(each.tier, each.body == body()) for each in found] == [("s3", True)] * 3
    (line,) = caplog.messages
    assert "no route to members" in line


def test_a_pool_that_takes_long_to_open_is_not_waited_for(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("burstcache.client.pool._OPEN_LIMIT_S", 0.01)
    may_open = threading.Event()

    @contextlib.asynccontextmanager
    async def slow() -> AsyncIterator[OpenPool]:
        await asyncio.to_thread(may_open.wait)
        async with rig.open() as pool:
            yield pool

    with Client(bucket=BUCKET, s3=rig.s3, pool=slow, freshness="immutable", memory_bytes=0) as client:
        assert client.get("key").body == body()
        may_open.set()
        until(lambda: client.get("key").tier == "pool")


def test_members_that_are_gone_cost_no_byte(rig: Rig) -> None:
    with rig.client(freshness="immutable") as client:
        client.get("key")
        client.get("key")
        rig.await_slices(4)
        (pool,) = rig.pools
        for name in ("pool-0", "pool-3", "pool-5"):  # one more than there is parity
            pool.tasks[name].get_loop().call_soon_threadsafe(pool.hub.members[name].end)
        until(lambda: len(pool.hub.members) == 3)

        again = client.get("key")

    assert (again.body, again.tier) == (body(), "s3")


def test_a_file_whose_client_was_closed_is_not_read(rig: Rig) -> None:
    with rig.client() as client:
        file = client.open("key")

    with pytest.raises(ValueError, match="read of 'key', whose client was closed"):
        file.read(1)


def test_tasks_read_large_objects_and_files(rig: Rig) -> None:
    async def scenario() -> tuple[bytes, bytes, bytes]:
        async with AsyncClient(bucket=BUCKET, s3=rig.s3, pool=rig.open) as client:
            whole = (await client.get("key")).body
            async with await client.open("key") as file:
                file.seek(_SIZE - 5)
                end = await file.read()
                file.seek(0)
                parts = [bytes(part) async for part in file.parts()]
            return whole, b"".join(parts), end

    assert asyncio.run(scenario()) == (body(), body(), body()[-5:])


def test_a_wrapped_client_streams_large_objects_through_the_pool(rig: Rig) -> None:
    with rig.client(freshness="immutable") as client:
        s3 = burstcache.wrap(rig.s3, client=client)
        for _ in range(2):
            assert s3.get_object(Bucket=BUCKET, Key="key")["Body"].read() == body()
        rig.await_slices(4)
        with Requests(rig.s3) as sent:
            answer = s3.get_object(Bucket=BUCKET, Key="key")
            chunks = list(answer["Body"].iter_chunks(70_000))
            part = s3.get_object(Bucket=BUCKET, Key="key", Range="bytes=299990-300009")["Body"].read()

    assert b"".join(chunks) == body()
    assert answer["ContentLength"] == _SIZE
    assert part == body()[299_990:300_010]
    assert sent == []


def test_a_wrapped_client_s_stream_of_an_overwritten_object_breaks_off_as_boto3_s_does(rig: Rig) -> None:
    with rig.client(freshness="immutable") as client:
        s3 = burstcache.wrap(rig.s3, client=client)
        answer = s3.get_object(Bucket=BUCKET, Key="key")
        stream = answer["Body"]
        stream.read(10)
        rig.put(2)
        with pytest.raises(ResponseStreamingError, match="no longer the version"):
            stream.read()
        with pytest.raises(ClientError, match="PreconditionFailed"):
            s3.get_object(Bucket=BUCKET, Key="key", IfMatch=answer["ETag"])
        assert s3.get_object(Bucket=BUCKET, Key="key")["Body"].read() == body(2)
