"""A client of the local run reads large objects through the stack's pool: Lambda wakes the members, which dial it."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import boto3
import fsspec
import pytest

import burstcache
from burstcache.client import Client
from burstcache.pool.read_through import ReadThrough
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
    urls = {"": s3.meta.endpoint_url}
    return Client(stack_name="burstcache", session=session, endpoint_urls=urls, pool=pool, memory_bytes=0)


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
                return file.tier == "pool"

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

    with Client(memory_bytes=0) as client:
        cloud.client("s3").put_object(Bucket=client.bucket_name, Key="third", Body=_BODY)

        until(lambda: client.get("third").tier == "pool")


_OTHER_PROGRAM = """
import sys, boto3
from burstcache.client import Client

session = boto3.Session("local", "local", region_name=sys.argv[1])
client = Client(stack_name="burstcache", session=session, endpoint_urls={"": sys.argv[2]}, memory_bytes=0)
while True:
    print(client.get(sys.argv[3]).tier, flush=True)
"""


def test_a_program_that_is_killed_leaves_the_pool_to_the_other(cloud: LocalCloud) -> None:
    s3 = cloud.client("s3")
    s3.put_object(Bucket=cloud.bucket_name, Key="both", Body=_BODY)
    command = [sys.executable, "-c", _OTHER_PROGRAM, s3.meta.region_name, s3.meta.endpoint_url, "both"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as other, client_of(cloud) as staying:
        assert other.stdout
        try:
            while next(other.stdout) != "pool\n":
                pass
        finally:
            other.kill()
        tiers = []

        def is_pooled() -> bool:
            found = staying.get("both")
            assert found.body == _BODY
            tiers.append(found.tier)
            return tiers[-3:] == ["pool"] * 3

        until(is_pooled)


@pytest.mark.parametrize("is_used", [True, False], ids=["used", "left alone"])
def test_a_wrapped_client_reads_through_the_pool_unless_it_is_to_leave_it_alone(
    cloud: LocalCloud, is_used: bool
) -> None:
    s3, key = cloud.client("s3"), f"wrapped-{is_used}"
    s3.put_object(Bucket=cloud.bucket_name, Key=key, Body=_BODY)
    with client_of(cloud, pool=None if is_used else False) as client:
        wrapped = burstcache.wrap(s3, client=client)

        def read() -> str:
            answer = wrapped.get_object(Bucket=cloud.bucket_name, Key=key)
            assert answer["Body"].read() == _BODY
            return client.get(key).tier

        if is_used:
            until(lambda: read() == "pool")
        else:
            assert [read() for _ in range(3)] == ["s3"] * 3


@pytest.mark.parametrize("is_used", [True, False], ids=["used", "left alone"])
def test_a_file_system_reads_through_the_pool_unless_it_is_to_leave_it_alone(
    cloud: LocalCloud, monkeypatch: pytest.MonkeyPatch, is_used: bool
) -> None:
    for name, value in cloud.variables.items():
        monkeypatch.setenv(name, value)
    pooled = list[bool]()
    read = ReadThrough.read

    async def noted(through: ReadThrough, *arguments: Any) -> bool:
        pooled.append(await read(through, *arguments))
        return pooled[-1]

    monkeypatch.setattr(ReadThrough, "read", noted)
    key = f"file-{is_used}"
    cloud.client("s3").put_object(Bucket=cloud.bucket_name, Key=key, Body=_BODY)
    files = fsspec.filesystem("burstcache", pool=is_used, memory_bytes=0, skip_instance_cache=True)

    def is_pooled() -> bool:
        assert files.cat_file(f"{cloud.bucket_name}/{key}") == _BODY
        return any(pooled)

    if is_used:
        until(is_pooled)
    else:
        assert not any(is_pooled() for _ in range(3))


def test_a_client_that_does_not_want_the_pool_reads_from_s3(cloud: LocalCloud) -> None:
    with client_of(cloud, pool=False) as client:
        cloud.client("s3").put_object(Bucket=client.bucket_name, Key="other", Body=_BODY)

        assert [client.get("other").tier for _ in range(3)] == ["s3"] * 3
