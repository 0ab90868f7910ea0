"""Objects above the limit, read through a pool whose members are tasks of its own event loop; S3 is moto's."""

from __future__ import annotations

import contextlib
import random
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from burstcache.client import Client
from burstcache.client.pool import OpenPool
from burstcache.core.pool.slices import Redundancy
from support.aws import BUCKET, REGION, mocked_aws, session
from support.boto3_calls import Requests
from support.pool import LocalPool, running_pool
from support.waiting import until

if TYPE_CHECKING:
    from types_boto3_s3.client import S3Client

_SLICE = 300_000
_SIZE = 1_190_003
_LIMIT = 10_000


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
        return Client(bucket=BUCKET, s3=self.s3, pool=self.open, **arguments)

    def put(self, version: int = 1) -> None:
        self.s3.put_object(Bucket=BUCKET, Key="key", Body=body(version))

    def await_slices(self, count: int) -> None:
        """Wait until the pool has all six chunks of that many slices, and no others."""
        (pool,) = self.pools
        until(lambda: [len(store) for store in pool.stores.values()] == [count] * 6)


@pytest.fixture
def rig(monkeypatch: pytest.MonkeyPatch) -> Iterator[Rig]:
    for user in ("core.pool.slices", "client.streams", "client.large"):
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
