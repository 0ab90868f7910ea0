"""Guests of real Redis nodes: readers bring them, hit them, and do without a node that is away."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import redis

from burstcache.adapters.redis_objects import lease_key, object_key
from burstcache.core.keys import key_hash
from burstcache.core.placement import node_for
from support.answers import body_of
from support.read_path import Cloud, Environment
from support.servers import RedisServer, Silence
from support.waiting import free_port

_NAMES = ("node-1", "node-2")
_KEYS = [f"key-{number}" for number in range(8)]


@dataclass
class Nodes:
    """Two nodes that take guests, and a client to look into each."""

    servers: dict[str, RedisServer]
    clients: dict[str, redis.Redis]

    def has(self, key: str, node: str = "") -> bool:
        return bool(self.clients[node or home_of(key)].exists(object_key(key_hash(key))))


def home_of(key: str) -> str:
    return node_for(key_hash(key), _NAMES)


@pytest.fixture
def nodes(cloud: Cloud, environment: Environment) -> Iterator[Nodes]:
    servers = {name: RedisServer(free_port()) for name in _NAMES}
    for name, server in servers.items():
        server.start()
        cloud.node("running", 7, name=name, peers=_NAMES)
    environment(REDIS_NODES=",".join(f"{name}=i-1@127.0.0.1:{server.port}" for name, server in servers.items()))
    for key in _KEYS:
        cloud.put(key, b"from S3")
    clients = {name: redis.Redis(port=server.port) for name, server in servers.items()}
    yield Nodes(servers, clients)
    for name in _NAMES:
        clients[name].close()
        servers[name].kill()


def test_a_first_read_brings_the_object_to_its_home_and_the_second_is_a_hit_there(cloud: Cloud, nodes: Nodes) -> None:
    first = [cloud.get(key)["headers"]["x-cache-tier"] for key in _KEYS]
    second = [cloud.get(key) for key in _KEYS]

    assert first == ["s3"] * len(_KEYS)
    assert {answer["headers"]["x-cache-tier"] for answer in second} == {"redis"}
    assert {body_of(answer) for answer in second} == {b"from S3"}
    assert [nodes.has(key, "node-1") for key in _KEYS] == [home_of(key) == "node-1" for key in _KEYS]
    assert {home_of(key) for key in _KEYS} == set(_NAMES)


def test_readers_that_find_another_one_loading_bring_nothing(cloud: Cloud, nodes: Nodes) -> None:
    key = _KEYS[0]
    nodes.clients[home_of(key)].set(lease_key(key_hash(key)), "another's")

    answer = cloud.get(key)

    assert (answer["headers"]["x-cache-tier"], nodes.has(key)) == ("s3", False)


@pytest.mark.parametrize(
    "headers", [{"range": "bytes=1-2"}, {"if_none_match": '"another"'}], ids=["a part", "on a condition"]
)
def test_a_read_that_may_not_get_the_whole_object_leaves_it_to_others(
    cloud: Cloud, nodes: Nodes, headers: dict[str, str]
) -> None:
    cloud.get(_KEYS[0], **headers)

    assert not nodes.clients[home_of(_KEYS[0])].keys()


def test_a_part_of_a_guest_is_a_hit(cloud: Cloud, nodes: Nodes) -> None:
    cloud.get(_KEYS[0])

    answer = cloud.get(_KEYS[0], range="bytes=5-")

    assert (answer["statusCode"], body_of(answer), answer["headers"]["x-cache-tier"]) == (206, b"S3", "redis")


@pytest.mark.parametrize("key", ["missing", "large"])
def test_what_no_tier_can_hold_is_answered_by_s3_as_ever(cloud: Cloud, nodes: Nodes, key: str) -> None:
    cloud.environment(MAX_OBJECT_BYTES="100")
    cloud.put("large", b"x" * 101)

    answers = [cloud.get(key) for _ in range(2)]

    assert [answer["statusCode"] for answer in answers] == [404 if key == "missing" else 307] * 2
    assert not nodes.has(key)


def test_a_head_finds_a_guest_and_brings_none(cloud: Cloud, nodes: Nodes) -> None:
    cloud.get(_KEYS[0])

    tiers = [cloud.get(key, "HEAD")["headers"]["x-cache-tier"] for key in _KEYS[:2]]

    assert (tiers, nodes.has(_KEYS[1])) == (["redis", "s3"], False)


def test_a_node_that_dies_takes_its_own_keys_only(cloud: Cloud, nodes: Nodes) -> None:
    for key in _KEYS:
        cloud.get(key)
    nodes.servers["node-1"].kill()

    answers = [cloud.get(key) for key in _KEYS]

    assert {body_of(answer) for answer in answers} == {b"from S3"}
    assert [answer["headers"]["x-cache-tier"] for answer in answers] == [
        "s3" if home_of(key) == "node-1" else "redis" for key in _KEYS
    ]


def test_a_node_that_hangs_costs_one_time_out_and_not_one_per_read(
    cloud: Cloud, nodes: Nodes, environment: Environment
) -> None:
    with Silence() as silence:
        environment(REDIS_NODES=f"node-1=i-1@{silence.address},node-2=i-2@127.0.0.1:{nodes.servers['node-2'].port}")

        bodies = {body_of(cloud.get(key)) for key in _KEYS * 2}

        assert bodies == {b"from S3"}
        assert silence.connections() == 1


def test_a_node_that_stops_is_asked_no_more_within_the_digests_age(cloud: Cloud, nodes: Nodes) -> None:
    for key in _KEYS:
        cloud.get(key)
    cloud.node("stopping", 7, name="node-1", peers=_NAMES)
    cloud.clock.sleep(2.1)

    tiers = [cloud.get(key)["headers"]["x-cache-tier"] for key in _KEYS]

    assert tiers == ["s3" if home_of(key) == "node-1" else "redis" for key in _KEYS]


def test_a_guest_is_kept_in_memory_without_a_question_to_s3(
    cloud: Cloud, nodes: Nodes, environment: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment(MEMORY_MB="16")
    cloud.get(_KEYS[0])
    environment()  # another reader, whose memory is empty

    def refuse(**_: Any) -> Any:
        raise AssertionError("S3 was asked")

    for operation in ("head_object", "get_object"):
        monkeypatch.setattr(environment.clients.s3, operation, refuse)

    tiers = [cloud.get(_KEYS[0])["headers"]["x-cache-tier"] for _ in range(2)]

    assert tiers == ["redis", "memory"]


def test_a_proxy_gathers_what_nodes_are_judged_by_over_its_reads(
    cloud: Cloud, nodes: Nodes, environment: Environment
) -> None:
    environment(TAKES_GUESTS="true")
    for key in _KEYS[:3]:
        cloud.get(key)
        cloud.clock.sleep(3)
    before = list(environment.reported)
    cloud.clock.sleep(1)
    cloud.get(_KEYS[3])

    (told,) = environment.reported
    assert before == []
    assert [served["key"] for served in told["keys"]] == _KEYS[:4]


def test_what_a_proxy_has_not_sent_is_sent_when_its_reader_ends(
    cloud: Cloud, nodes: Nodes, environment: Environment
) -> None:
    environment(TAKES_GUESTS="true")
    cloud.get(_KEYS[0])
    environment.close()

    assert [[served["key"] for served in told["keys"]] for told in environment.reported] == [_KEYS[:1]]
