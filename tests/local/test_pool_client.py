"""A client of the local run reads large objects through the stack's pool: Lambda wakes the members, which dial it."""

from __future__ import annotations

import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import boto3
import pytest

from burstcache.client import Client
from burstcache_local.cloud import LocalCloud, LocalOptions
from support.waiting import until

_BODY = random.Random(1).randbytes(20_000_003)


@pytest.fixture(scope="module")
def cloud() -> Iterator[LocalCloud]:
    parameters = {"PoolMembers": "12", "PoolMemoryMb": "512", "Relay": "none", "RedisNodeCount": "0"}
    with LocalCloud(LocalOptions(parameters=parameters)) as running:
        yield running


def client_of(cloud: LocalCloud, *, pool: bool | None = None) -> Client:
    s3 = cloud.client("s3")
    session = boto3.Session("local", "local", region_name=s3.meta.region_name)
    return Client(stack_name="burstcache", session=session, endpoint_urls={"": s3.meta.endpoint_url}, pool=pool)


def test_what_one_program_brought_into_the_pool_is_read_by_the_next(cloud: LocalCloud) -> None:
    with client_of(cloud) as first:
        cloud.client("s3").put_object(Bucket=first.bucket_name, Key="large", Body=_BODY)
        tiers = []

        def is_pooled() -> bool:
            found = first.get("large")
            assert found.body == _BODY
            tiers.append(found.tier)
            return found.tier == "pool"

        until(is_pooled)
    with client_of(cloud) as second:

        def has_streamed() -> bool:  # not, if members that leave take longer to come back than S3 to answer
            with second.open("large") as file:
                assert b"".join(file.parts()) == _BODY
                return file.is_pooled

        until(has_streamed)

    assert tiers[:2] == ["s3", "s3"]


def test_programs_that_begin_at_the_same_time_share_the_pool_and_one_that_ends_leaves_it_whole(
    cloud: LocalCloud,
) -> None:
    cloud.client("s3").put_object(Bucket=cloud.bucket_name, Key="shared", Body=_BODY)
    with client_of(cloud) as staying, client_of(cloud) as ending:

        def are_pooled() -> bool:
            with ThreadPoolExecutor(2) as threads:
                found = list(threads.map(lambda client: client.get("shared"), (staying, ending)))
            assert all(each.body == _BODY for each in found)
            return [each.tier for each in found] == ["pool", "pool"]

        until(are_pooled)
        ending.close()
        tiers = []

        def is_pooled() -> bool:
            found = staying.get("shared")
            assert found.body == _BODY
            tiers.append(found.tier)
            return tiers[-3:] == ["pool"] * 3

        until(is_pooled)


def test_a_program_is_configured_for_the_pool_by_its_environment(
    cloud: LocalCloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in cloud.variables.items():
        monkeypatch.setenv(name, value)

    with Client() as client:
        cloud.client("s3").put_object(Bucket=client.bucket_name, Key="third", Body=_BODY)

        until(lambda: client.get("third").tier == "pool")


def test_a_client_that_does_not_want_the_pool_reads_from_s3(cloud: LocalCloud) -> None:
    with client_of(cloud, pool=False) as client:
        cloud.client("s3").put_object(Bucket=client.bucket_name, Key="other", Body=_BODY)

        assert [client.get("other").tier for _ in range(3)] == ["s3"] * 3
