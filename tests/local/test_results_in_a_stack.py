"""Results on a stack's nodes: they are where objects would be, and nobody misses a node that does not run."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import redis

from benchmarks.support.variables import VARIABLES
from burstcache.adapters.clients import Clients
from burstcache.adapters.digest_table import DigestTable
from burstcache.client.configuration import VARIABLE, ClientConfiguration
from burstcache.core.errors import InvalidSettingError
from burstcache.core.rows import NodeRow
from burstcache.results import cached, open_cache
from support.aws import BUS, REGION, TABLE, clients, make_stack, mocked_aws
from support.servers import RedisServer, TlsRedis
from support.waiting import LIMIT_S, free_port, free_ports, until

BUCKET = "kept"
BOTH = ("node-1", "node-2")


@dataclass
class Nodes:
    """Two nodes of a stack that programs find by the environment."""

    servers: list[RedisServer]
    generation: int = 7

    def show(self, *running: str) -> None:
        """Have the digest show which nodes run."""
        self.generation += 1
        for name in BOTH:
            row = NodeRow(name, "running" if name in running else "stopping", self.generation, peers=running)
            DigestTable(TABLE, clients().dynamodb).show_node(row)

    def keys(self) -> list[int]:
        """Return the number of keys per node."""
        counts = []
        for server in self.servers:
            with redis.Redis(port=server.port) as client:
                counts.append(int(client.dbsize()))
        return counts


@pytest.fixture
def nodes(monkeypatch: pytest.MonkeyPatch) -> Iterator[Nodes]:
    servers = [RedisServer(port) for port in free_ports(2)]
    for server in servers:
        server.start()
    addresses = ",".join(
        f"{name}=i-{name[-1]}@127.0.0.1:{server.port}" for name, server in zip(BOTH, servers, strict=True)
    )
    describe(monkeypatch, addresses)
    try:
        with mocked_aws():
            make_stack()
            clients().s3.create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": REGION})
            found = Nodes(servers)
            found.show(*BOTH)
            yield found
    finally:
        for server in servers:
            server.kill()


def describe(monkeypatch: pytest.MonkeyPatch, addresses: str, **more: str) -> None:
    """Have the environment describe a stack with these nodes."""
    stack = {"TABLE_NAME": TABLE, "BUS_NAME": BUS, "AWS_REGION": REGION, "REDIS_NODES": addresses, **more}
    monkeypatch.setenv(VARIABLE, json.dumps(VARIABLES | stack))


def square(backend: str) -> Any:
    """Return a cached function of a program of its own."""
    cache = open_cache(backend, timeout_ms=LIMIT_S * 1000)
    return cached(backend=cache, version="1")(_square)


def _square(number: int) -> int:
    return number * number


def test_programs_share_results_on_the_nodes_that_run(nodes: Nodes) -> None:
    one, other = square("burstcache://"), square("burstcache://")

    assert [one(number) for number in range(20)] == [other(number) for number in range(20)]
    assert one.results.stats() == {"computed": 20}
    assert other.results.stats() == {"stack": 20}
    assert sum(nodes.keys()) == 20
    assert min(nodes.keys()) > 0


def test_without_a_node_functions_compute_and_s3_keeps(nodes: Nodes) -> None:
    nodes.show()
    one, other = (square(f"burstcache:// s3://{BUCKET}/results") for _ in range(2))

    assert (one(3), other(3), other(3)) == (9, 9, 9)
    assert other.results.stats() == {"s3": 2}
    assert nodes.keys() == [0, 0]

    nodes.show(*BOTH)
    until(lambda: other(3) == 9 and other.results.stats().get("stack"))
    assert sum(nodes.keys()) == 1


def test_a_node_that_dies_fails_no_call(nodes: Nodes) -> None:
    function = square("burstcache://")
    for number in range(20):
        function(number)

    for server in nodes.servers:
        server.kill()

    assert [function(number) for number in range(20)] == [number * number for number in range(20)]
    for server in nodes.servers:
        server.start()
    until(lambda: function(3) == 9 and function.results.stats().get("stack"))


def test_the_child_of_a_fork_talks_to_aws_on_no_connection_of_its_parent(
    nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Clients] = []
    make = ClientConfiguration.make_clients

    def make_clients(configuration: ClientConfiguration) -> Clients:
        made.append(make(configuration))
        return made[-1]

    monkeypatch.setattr(ClientConfiguration, "make_clients", make_clients)
    function = square("burstcache://")
    function(3)

    monkeypatch.setattr(os, "getpid", lambda: -1)

    assert [function(3), function(3)] == [9, 9]
    assert function.results.stats() == {"computed": 1, "stack": 2}
    assert len(made) == 2


def test_a_node_is_asked_over_tls_and_believed_by_its_certificate_alone(
    nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, another = TlsRedis(free_port()), TlsRedis(free_port())
    server.start()
    try:
        results = []
        for authority in (server, server, another):
            describe(monkeypatch, f"node-1=i-1@127.0.0.1:{server.port}", REDIS_CA_PEM=authority.ca_pem)
            nodes.show("node-1")
            function = square("burstcache://")
            assert function(3) == 9
            results.append(function.results.stats())
    finally:
        server.kill()

    assert results == [{"computed": 1}, {"stack": 1}, {"computed": 1}]


def test_a_stack_that_nothing_describes_is_an_error_at_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)

    with pytest.raises(InvalidSettingError, match="nothing says what to read"):
        open_cache("burstcache://")
    with pytest.raises(InvalidSettingError, match="accepted: burstcache://STACK"):
        open_cache("burstcache://stack/more")
