"""Slices of a large object in a local run: Redis nodes or S3 Express give them to all readers of the stack."""

from __future__ import annotations

import json
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Any

import boto3
import pytest

import burstcache
from burstcache.client import Client
from burstcache.client.configuration import OUTPUT, ZONE_VARIABLE
from burstcache.client.filesystem import BurstcacheFileSystem
from burstcache_local.cloud import LocalCloud, LocalOptions
from support.processes import REDIS, signal_named
from support.waiting import until

pytestmark = pytest.mark.slow

_MIB = 1 << 20
_SIZE_BYTES = 20 * _MIB
_KEY = "folder/large"
_RANGES = (  # one slice, the ends of two, several, and the short tail
    (3 * _MIB + 17, 3 * _MIB + 5_000),
    (6 * _MIB - 100, 6 * _MIB + 100),
    (9 * _MIB + 1, 14 * _MIB - 1),
    (_SIZE_BYTES - 10, _SIZE_BYTES),
)
_NODES = ("node-1", "node-2")
_WORTH = {"Policy": "hazard", "HitValueUsdPerMillion": "1000", "Relay": "none"}
_STACKS = {
    "redis": {"RedisOn": "ec2", "RedisNodeCount": str(len(_NODES)), "RedisInstanceType": "r7g.large"},
    "express": {"RedisNodeCount": "0", "ExpressZone": "use2-az1"},
}


@dataclass
class Readers:
    """Readers of a stack, each like a new process: nothing in its memory."""

    cloud: LocalCloud
    tier: str
    requests: Counter[str] = field(default_factory=Counter)  # to the origin bucket, by method

    @contextmanager
    def client(self) -> Iterator[Client]:
        """Provide a new client, and count its requests alone."""
        self.requests.clear()
        with Client(session=self._session()) as client:
            yield client

    def _session(self) -> boto3.Session:
        session = boto3.Session()
        session.events.register("before-send.s3", self._count)
        return session

    def _count(self, request: Any, **_: object) -> None:
        if f"/{self.cloud.bucket_name}/" in request.url:
            self.requests[request.method] += 1

    def write(self, seed: int) -> bytes:
        """Write the object, as another program does."""
        body = Random(seed).randbytes(_SIZE_BYTES)
        self.cloud.client("s3").put_object(Bucket=self.cloud.bucket_name, Key=_KEY, Body=body)
        return body

    def read(self, client: Client) -> tuple[set[str], list[bytes]]:
        """Read all ranges; return the tiers and the bytes."""
        found = [client.get(_KEY, range=f"bytes={start}-{end - 1}") for start, end in _RANGES]
        return {each.tier for each in found}, [each.body for each in found]

    def read_until_shared(self) -> list[bytes]:
        """Read with new clients until one gets all from the shared tier and only the head from S3; return the bytes."""

        def read() -> list[bytes] | None:
            with self.client() as client:
                client.head(_KEY)  # else the first range brings the head from S3, together with its bytes
                tiers, bodies = self.read(client)
            return bodies if tiers == {self.tier} and self.requests == {"HEAD": 1} else None

        return until(read)


@pytest.fixture(scope="module", params=_STACKS)
def readers(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Readers]:
    """A stack where slices pay in one tier, and the environment of a program in the nodes' zone."""
    tier = request.param
    folder, parameters = tmp_path_factory.mktemp("logs"), {**_WORTH, **_STACKS[tier]}
    with (
        LocalCloud(LocalOptions(boot_s=0.2, stop_s=0.2, run_dir=folder, parameters=parameters)) as cloud,
        pytest.MonkeyPatch.context() as environment,
    ):
        for name, value in cloud.variables.items():
            environment.setenv(name, value)
        environment.setenv(ZONE_VARIABLE, json.loads(cloud.outputs[OUTPUT])["REDIS_ZONE"])
        for node in _NODES if tier == "redis" else ():
            _hold(cloud, node)
        yield Readers(cloud, tier)


def _hold(cloud: LocalCloud, node: str) -> None:
    """Boot a node, and keep it running."""

    def phases() -> tuple[str, str]:
        found = cloud.invoke("RedisControlFunction", {"op": "ping", "node": node})
        return found["phase"], found["instance"]

    cloud.invoke("RedisControlFunction", {"op": "hold", "node": node, "for_s": 3600})
    until(lambda: phases() == ("running", "running"))


def _parts(body: bytes) -> list[bytes]:
    return [body[start:end] for start, end in _RANGES]


def test_a_reader_gets_the_slices_of_others_without_a_get_to_s3(readers: Readers) -> None:
    body = readers.write(1)

    assert readers.read_until_shared() == _parts(body)


def test_a_first_range_without_a_head_costs_one_get(readers: Readers) -> None:
    body = readers.write(2)
    readers.read_until_shared()

    def costs_one_get() -> bool:
        with readers.client() as client:
            tiers, bodies = readers.read(client)
        assert bodies == _parts(body)
        return tiers == {"s3", readers.tier} and readers.requests == {"GET": 1}

    until(costs_one_get)  # a tier on a busy machine may be late


def test_wrapped_clients_and_file_systems_get_the_slices_of_others(readers: Readers) -> None:
    body = readers.write(3)
    readers.read_until_shared()
    start, end = _RANGES[2]
    bucket, session = readers.cloud.bucket_name, boto3.Session()

    def wrapped_client_gets_them() -> bool:
        with readers.client() as client:
            wrapped = burstcache.wrap(session.client("s3"), client=client)
            wrapped.head_object(Bucket=bucket, Key=_KEY)
            answer = wrapped.get_object(Bucket=bucket, Key=_KEY, Range=f"bytes={start}-{end - 1}")
            assert answer["Body"].read() == body[start:end]
            return client.stats().tiers.keys() == {readers.tier}

    def file_system_gets_them() -> bool:
        files = BurstcacheFileSystem(skip_instance_cache=True)
        files.size(f"{bucket}/{_KEY}")
        assert files.cat_file(f"{bucket}/{_KEY}", start, end) == body[start:end]
        return readers.tier in files.stats().tiers

    until(wrapped_client_gets_them)
    until(file_system_gets_them)


def test_slices_of_an_overwritten_object_are_never_read_again(readers: Readers) -> None:
    before = readers.write(4)
    readers.read_until_shared()
    with readers.client() as client:
        assert readers.read(client)[1] == _parts(before)

        after = readers.write(5)  # of the same size
        until(lambda: readers.read(client)[1] == _parts(after))
    with readers.client() as client:
        assert readers.read(client)[1] == _parts(after)

    assert readers.read_until_shared() == _parts(after)


@pytest.mark.parametrize("readers", ["redis"], indirect=True, scope="module")  # S3 Express has no nodes
def test_nodes_that_freeze_or_die_fail_no_read(readers: Readers) -> None:
    body = readers.write(6)
    readers.read_until_shared()

    for number in (signal.SIGSTOP, signal.SIGKILL):
        with readers.client() as client:
            client.head(_KEY)
            assert signal_named(REDIS, number)
            assert readers.read(client) == ({"s3"}, _parts(body))
