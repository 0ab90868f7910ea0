"""The ways to cache functions, in the local cloud: by a balancer elsewhere, here by a name, or none at all."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.request import urlopen

import pytest

from burstcache.adapters.digest_table import DigestTable
from burstcache_local.cloud import LocalCloud, LocalOptions
from support.waiting import until


@pytest.fixture(params=["direct", "none"])
def relay(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def cloud(relay: str) -> Iterator[LocalCloud]:
    options = LocalOptions(parameters={"Relay": relay}, boot_s=5)  # longer than a cache function takes to start
    with LocalCloud(options) as running:
        yield running


def test_a_burst_ends_in_redis_by_the_tiers_that_there_are(cloud: LocalCloud, relay: str) -> None:
    cloud.client("s3").put_object(Bucket=cloud.bucket_name, Key="burst", Body=b"text")
    tiers: list[str] = []

    def asked_of_redis() -> bool:
        with urlopen(f"{cloud.front_url}/objects/burst") as answer:
            tiers.append(answer.headers["x-cache-tier"])
        return tiers[-1] == "redis"

    until(asked_of_redis)

    assert list(dict.fromkeys(tiers)) == {"direct": ["s3", "lambda", "redis"], "none": ["s3", "redis"]}[relay]


def test_a_stack_without_tiers_answers_from_s3_and_tells_readers_of_writes() -> None:
    with LocalCloud(LocalOptions(parameters={"Relay": "none", "RedisNodeCount": "0"})) as cloud:
        digest = DigestTable(cloud.outputs["TableName"], cloud.client("dynamodb"))
        cloud.client("s3").put_object(Bucket=cloud.bucket_name, Key="k", Body=b"text")
        tiers = []
        for _ in range(4):
            with urlopen(f"{cloud.front_url}/objects/k") as answer:
                tiers.append(answer.headers["x-cache-tier"])

        until(lambda: digest.read().changes)

    assert tiers == ["s3"] * 4
