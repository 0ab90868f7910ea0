"""The control plane against real parts: moto with its state machines, a Redis, a NATS server."""

from __future__ import annotations

from collections.abc import Iterator

import boto3
import pytest

from burstcache_local.moto.server import moto_server
from support.servers import RedisServer, serve_nats
from support.waiting import free_port
from support.world import BUCKET, World


@pytest.fixture(scope="module")
def cloud_url() -> Iterator[str]:
    environment = {
        "AWS_ACCESS_KEY_ID": "local",
        "AWS_SECRET_ACCESS_KEY": "local",
        "AWS_DEFAULT_REGION": "eu-central-1",
    }
    with pytest.MonkeyPatch.context() as patch, moto_server() as url:
        for name, value in (environment | {"AWS_ENDPOINT_URL": url}).items():
            patch.setenv(name, value)
        yield url


@pytest.fixture(scope="module")
def relay_url() -> Iterator[str]:
    port = free_port()
    server = serve_nats(port)
    yield f"nats://127.0.0.1:{port}"
    server.terminate()
    server.wait()


@pytest.fixture
def redis_server() -> Iterator[RedisServer]:
    server = RedisServer(free_port())
    server.start()
    yield server
    server.kill()


@pytest.fixture(scope="module")
def bucket(cloud_url: str) -> str:
    boto3.client("s3").create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": "eu-central-1"})
    return BUCKET


@pytest.fixture
def world(
    request: pytest.FixtureRequest, cloud_url: str, bucket: str, relay_url: str, redis_server: RedisServer
) -> Iterator[World]:
    world = World(f"w{abs(hash(request.node.name)) % 10**10}", relay_url, redis_server)
    yield world
    world.close()
