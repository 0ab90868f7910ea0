"""A client in the caller's process brings guests and hits them, also through a wrapped boto3 client."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
import redis

import burstcache
from benchmarks.support.variables import VARIABLES
from burstcache.adapters.digest_table import DigestTable
from burstcache.adapters.redis_objects import lease_key, object_key
from burstcache.client import Client
from burstcache.client.configuration import VARIABLE
from burstcache.core.keys import key_hash
from burstcache.core.rows import NodeRow
from support.aws import BUCKET, BUS, REGION, TABLE, clients, make_stack, mocked_aws
from support.servers import RedisServer

_MAX_OBJECT_BYTES = 100


@pytest.fixture
def node(monkeypatch: pytest.MonkeyPatch) -> Iterator[redis.Redis]:
    """Run a node that accepts guests, in a stack that clients find through the environment."""
    server = RedisServer()
    stack = {
        "TABLE_NAME": TABLE,
        "BUCKET_NAME": BUCKET,
        "ORIGIN_PREFIX": "",
        "BUS_NAME": BUS,
        "AWS_REGION": REGION,
        "REDIS_NODES": f"node-1=i-1@127.0.0.1:{server.port}",
        "MAX_OBJECT_BYTES": str(_MAX_OBJECT_BYTES),
    }
    monkeypatch.setenv(VARIABLE, json.dumps(VARIABLES | stack))
    with server, mocked_aws(), redis.Redis(port=server.port) as client:
        make_stack()
        clients().s3.put_object(Bucket=BUCKET, Key="small", Body=b"body")
        clients().s3.put_object(Bucket=BUCKET, Key="large", Body=b"x" * (_MAX_OBJECT_BYTES + 1))
        DigestTable(TABLE, clients().dynamodb).show_node(NodeRow("node-1", "running", 7, peers=("node-1",)))
        yield client


@pytest.fixture
def wrapped(node: redis.Redis) -> Iterator[Any]:
    with Client(memory_bytes=0) as client:
        yield burstcache.wrap(boto3.client("s3"), client=client)


def is_here(node: redis.Redis, key: str) -> bool:
    return bool(node.exists(object_key(key_hash(key))))


def test_what_one_client_brings_another_one_hits(node: redis.Redis) -> None:
    with Client(memory_bytes=0) as one, Client(memory_bytes=0) as other:
        tiers = [client.get("small").tier for client in (one, other, one)]

    assert tiers == ["s3", "redis", "redis"]


def test_many_reads_at_once_bring_an_object_once(node: redis.Redis) -> None:
    with Client(memory_bytes=0) as client:
        found = [client.submit(client.get, "small") for _ in range(20)]
        bodies = {each.result().body for each in found}

    assert bodies == {b"body"}
    assert is_here(node, "small")


def test_an_object_that_is_too_large_is_the_callers_alone(node: redis.Redis, wrapped: Any) -> None:
    bodies = [wrapped.get_object(Bucket=BUCKET, Key="large")["Body"].read() for _ in range(2)]

    assert [len(body) for body in bodies] == [_MAX_OBJECT_BYTES + 1] * 2
    assert not is_here(node, "large")


@pytest.mark.parametrize("reads_bytes", [4, 3], ids=["to its end", "in part"])
def test_a_wrapped_client_brings_what_its_caller_reads_to_the_end(
    node: redis.Redis, wrapped: Any, reads_bytes: int
) -> None:
    wrapped.get_object(Bucket=BUCKET, Key="small")["Body"].read(reads_bytes)

    assert is_here(node, "small") == (reads_bytes == 4)


def test_a_wrapped_client_that_has_written_brings_nothing_older(node: redis.Redis, wrapped: Any) -> None:
    """Its write's event may take longer than its next read."""
    body = wrapped.get_object(Bucket=BUCKET, Key="small")["Body"]
    wrapped.put_object(Bucket=BUCKET, Key="small", Body=b"newer")

    assert body.read() == b"body"

    assert not is_here(node, "small")
    assert node.exists(lease_key(key_hash("small")))  # until it runs out
    assert wrapped.get_object(Bucket=BUCKET, Key="small")["Body"].read() == b"newer"
