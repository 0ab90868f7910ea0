"""Read statistics: tiers, bytes and the time saved, and each object that cannot be cached with the reason, once."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

import burstcache
from burstcache import logs
from burstcache.client import AsyncClient, Client
from burstcache.core.slices import SLICE_BYTES, SliceNames, Version
from burstcache.serve.part_read import PartRead
from burstcache.serve.read_stats import ReadCounter, ReadStats, TierStats
from support.aws import BUCKET, REGION, mocked_aws, session

if TYPE_CHECKING:
    from types_boto3_s3.client import S3Client

_LARGE = 20 << 20


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Client]:
    log = logs.OnceLog(logging.getLogger("burstcache"))
    monkeypatch.setattr("burstcache.serve.read_stats.logger", lambda: log)
    with mocked_aws():
        s3: S3Client = session().client("s3")
        s3.create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": REGION})
        s3.put_object(Bucket=BUCKET, Key="small", Body=b"0123456789")
        s3.put_object(Bucket=BUCKET, Key="large", Body=bytes(_LARGE))
        yield s3


def reads(stats: ReadStats) -> dict[str, tuple[int, int]]:
    return {tier: (each.reads, each.size_bytes) for tier, each in stats.tiers.items()}


def test_small_objects_count_once_per_read(s3: S3Client) -> None:
    with Client(bucket=BUCKET, s3=s3) as client:
        for _ in range(3):
            client.get("small")
        client.head("small")
        client.get_many(["small"])

        assert reads(client.stats()) == {"s3": (1, 10), "memory": (3, 30)}
        assert client.stats().hit_share == 0.75


def test_a_large_object_counts_each_byte_once_and_names_memory_once_it_is_there(s3: S3Client) -> None:
    wrapped: Any = burstcache.wrap(s3, bucket=BUCKET)
    tiers = []
    for _ in range(2):
        response = wrapped.get_object(Bucket=BUCKET, Key="large")
        tiers.append(response["ResponseMetadata"]["HTTPHeaders"]["x-cache-tier"])
        assert response["Body"].read() == bytes(_LARGE)

    assert tiers == ["s3", "memory"]
    assert reads(wrapped.stats()) == dict.fromkeys(tiers, (_LARGE // SLICE_BYTES, _LARGE))


def test_tasks_count(s3: S3Client) -> None:
    async def read() -> ReadStats:
        async with AsyncClient(bucket=BUCKET, s3=s3) as client:
            await client.get("small")
            await client.get("small")
            return client.stats()

    assert reads(asyncio.run(read())) == {"s3": (1, 10), "memory": (1, 10)}


def test_large_objects_count_once_per_slice(s3: S3Client) -> None:
    with Client(bucket=BUCKET, s3=s3) as client:
        client.get("large")
        client.get("large", range="bytes=1048570-1048579")

        assert reads(client.stats()) == {"s3": (_LARGE // SLICE_BYTES, _LARGE), "memory": (2, 10)}


def test_the_time_saved_is_what_s3_takes_for_a_hit(s3: S3Client) -> None:
    with Client(bucket=BUCKET, s3=s3) as client:
        client.get("large")
        client.get("large", range="bytes=0-170000")

        assert reads(client.stats())["memory"] == (1, 170_001)
        assert client.stats().tiers["memory"].saved_ms == pytest.approx(27, abs=0.1)
        assert client.stats().tiers["s3"].saved_ms == 0


def test_a_read_of_several_slices_saves_one_wait_for_a_first_byte_per_tier(s3: S3Client) -> None:
    with Client(bucket=BUCKET, s3=s3) as client:
        client.get("large")
        client.get("large", range="bytes=0-849999")

        assert client.stats().tiers["memory"].reads == 4
        assert client.stats().tiers["memory"].saved_ms == pytest.approx(25 + 10)

    counter, version = ReadCounter(), Version("large", "0" * 32, '"e"', _LARGE)
    slices = SliceNames("", BUCKET).slices(version, 0, 850_000)
    read = PartRead(version, 0, 850_000, slices, counter)
    for each, tier in zip(slices, ("disk", "s3", "disk", "redis"), strict=True):
        read.received(each, tier)
    found = counter.stats().tiers
    assert (found["disk"].reads, found["redis"].reads, found["s3"].saved_ms) == (2, 1, 0)
    assert found["disk"].saved_ms == pytest.approx(25 + 2 * SLICE_BYTES / 85_000)
    assert found["redis"].saved_ms == pytest.approx(25 + (850_000 - 3 * SLICE_BYTES) / 85_000)


def test_wrapped_clients_and_the_process_count(s3: S3Client) -> None:
    before = burstcache.stats().tiers.get("memory", TierStats(0, 0, 0)).reads
    wrapped: Any = burstcache.wrap(s3, bucket=BUCKET)
    for _ in range(2):
        wrapped.get_object(Bucket=BUCKET, Key="small")["Body"].read()

    assert reads(wrapped.stats()) == {"s3": (1, 10), "memory": (1, 10)}
    assert burstcache.stats().tiers["memory"].reads == before + 1


def test_requests_are_those_that_s3_receives(s3: S3Client) -> None:
    sent: list[str] = []
    s3.meta.events.register("request-created.s3", lambda operation_name, **_: sent.append(operation_name))
    before = burstcache.stats().requests
    wrapped: Any = burstcache.wrap(s3, bucket=BUCKET, freshness="strong")
    for _ in range(2):
        wrapped.get_object(Bucket=BUCKET, Key="small")["Body"].read()
    wrapped.get_object(Bucket=BUCKET, Key="large")["Body"].read()
    wrapped.head_object(Bucket=BUCKET, Key="large")
    wrapped.list_objects_v2(Bucket=BUCKET)
    wrapped.put_object(Bucket=BUCKET, Key="other", Body=b"")
    with Client(bucket=BUCKET, s3=s3) as client:
        client.get_many(["small", "other", "large"])
        client.put("other", b"1")
        client.get("other")
        client.get("other")

        assert wrapped.stats().requests + client.stats().requests == len(sent)
        assert burstcache.stats().requests == before + len(sent)
    assert {"GetObject", "HeadObject", "ListObjectsV2", "PutObject"} == set(sent)
    assert wrapped.stats().tiers["s3"].reads > len(sent), "reads are counted by slice"


def test_an_object_that_is_too_large_for_memory_is_named_once_with_the_parameter(
    s3: S3Client, caplog: pytest.LogCaptureFixture
) -> None:
    with Client(bucket=BUCKET, s3=s3, memory_bytes=1 << 20) as client:
        for _ in range(2):
            assert len(client.get("large").body) == _LARGE
        (reason,) = client.stats().bypasses

    (line,) = caplog.messages
    assert "'large'" in line
    assert "memory_bytes" in line
    assert "memory_bytes" in reason


def test_a_call_that_only_s3_can_answer_is_counted(s3: S3Client, caplog: pytest.LogCaptureFixture) -> None:
    wrapped: Any = burstcache.wrap(s3, bucket=BUCKET)
    for _ in range(2):
        wrapped.get_object(Bucket=BUCKET, Key="small", ChecksumMode="ENABLED")

    assert wrapped.stats().bypasses == {"a parameter of the call needs S3": 2}
    assert len(caplog.messages) == 1
