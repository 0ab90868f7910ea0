"""Slices as `burstcache explain` counts them, next to what clients have stored on nodes and in S3 Express."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import boto3
import pytest

from benchmarks.support.variables import VARIABLES
from burstcache.adapters.clients import Clients
from burstcache.adapters.digest_table import DigestTable
from burstcache.client import Client
from burstcache.client.configuration import VARIABLE, ZONE_VARIABLE
from burstcache.core.keys import key_hash
from burstcache.core.rows import NodeRow
from burstcache.core.slices import SLICE_BYTES, SliceNames, Version
from burstcache.queries import slices as queries
from burstcache.queries.slices import ObjectHead, ObjectSlices, SliceTiers, StoredSlices
from support.aws import BUCKET, BUS, REGION, TABLE, clients, make_stack, mocked_aws
from support.express import COPIES, URLS, make_copies
from support.servers import RedisServer
from support.waiting import until

_KEY, _SLICES, _TAIL = "lake/part-0.parquet", 96, 1000  # above 16 MiB, which a client reads by slices
_SIZE = (_SLICES - 1) * SLICE_BYTES + _TAIL
_NAMES = ("node-1", "node-2")
_WITH_EXPRESS = {"REDIS_NODES": "", "EXPRESS_BUCKET": COPIES, "AWS_REGION": "us-east-1"}  # whose prices are known


@pytest.fixture
def variables(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    """Run two nodes in a stack with a large object, and return its readers' settings."""
    with RedisServer() as first, RedisServer() as second, mocked_aws():
        make_stack()
        clients().s3.put_object(Bucket=BUCKET, Key=_KEY, Body=bytes(_SIZE))
        for name in _NAMES:
            DigestTable(TABLE, clients().dynamodb).show_node(running(name))
        settings = VARIABLES | {
            "TABLE_NAME": TABLE,
            "BUCKET_NAME": BUCKET,
            "BUS_NAME": BUS,
            "AWS_REGION": REGION,
            "TAKES_GUESTS": "true",
            "REDIS_NODES": f"node-1=i-1@127.0.0.1:{first.port},node-2=i-2@127.0.0.1:{second.port}",
            "REDIS_INSTANCE_TYPE": "r7g.large",
            "REDIS_ZONE": "us-east-1b",
        }
        monkeypatch.setenv(VARIABLE, json.dumps(settings))
        monkeypatch.setenv(ZONE_VARIABLE, "us-east-1b")
        yield settings


def running(name: str, **changes: Any) -> NodeRow:
    return replace(NodeRow(name, "running", 7, peers=_NAMES, deadline_at_us=2**62), **changes)


def found(variables: Mapping[str, str], *rows: NodeRow, etag: str | None = None) -> ObjectSlices:
    if etag is None:
        etag = clients().s3.head_object(Bucket=BUCKET, Key=_KEY)["ETag"]
    head = ObjectHead(exists=True, size_bytes=_SIZE, etag=etag)
    return SliceTiers.of(variables, clients()).slices_of(_KEY, head, rows, now_us=1)


def held(slices: ObjectSlices) -> dict[str, StoredSlices]:
    assert slices.nodes is not None
    return {home.node: home.held for home in slices.nodes.homes}


def store(variables: Mapping[str, str]) -> None:
    """Read with two clients until the object's slices are on its nodes. A slow node misses slices of a read."""
    nodes = [running(name) for name in _NAMES]

    def is_stored_after_reads() -> bool:
        with Client(memory_bytes=8 << 20) as one, Client(memory_bytes=8 << 20) as other:
            for client in (one, other):  # a node takes a slice at its second miss
                assert client.get(_KEY).body == bytes(_SIZE)
        return all(each.stored == each.slices for each in held(found(variables, *nodes)).values())

    until(is_stored_after_reads)


def test_nodes_have_what_clients_have_stored_there(variables: dict[str, str]) -> None:
    nodes = [running(name) for name in _NAMES]
    before = held(found(variables, *nodes))

    store(variables)

    after, of_another_version = found(variables, *nodes), found(variables, *nodes, etag='"another"')
    assert {each.stored for each in before.values()} == {0}
    assert (after.slices, after.sampled) == (_SLICES, _SLICES)
    assert sum(each.slices for each in held(after).values()) == _SLICES
    assert sum(each.stored_bytes or 0 for each in held(after).values()) == _SIZE
    assert min(each.slices for each in held(after).values()) > 0
    assert {each.stored for each in held(of_another_version).values()} == {0}


def test_a_stopped_node_has_no_slices_and_one_that_does_not_answer_is_named(variables: dict[str, str]) -> None:
    away = variables | {"REDIS_NODES": "node-1=i-1@127.0.0.1:9,node-2=i-2@127.0.0.1:9"}

    first, second = held(found(away, running("node-2", peers=_NAMES))).values()

    assert (first.stored, first.stored_bytes, first.problem) == (0, 0, "")
    assert (second.stored, second.stored_bytes) == (None, None)
    assert second.problem.startswith("node-2 at 127.0.0.1: ")


def test_a_node_that_boots_is_not_asked(variables: dict[str, str]) -> None:
    assert held(found(variables, running("node-2", phase="booting")))["node-2"].problem == "it is booting"


def test_of_a_larger_object_slices_are_asked_for_that_are_evenly_spread(
    variables: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    store(variables)
    monkeypatch.setattr(queries, "MOST_SAMPLED", 5)

    slices = found(variables, *map(running, _NAMES))

    assert (slices.slices, slices.sampled) == (_SLICES, 5)
    assert sum(each.stored or 0 for each in held(slices).values()) == 5


def test_without_an_etag_nothing_is_asked(variables: dict[str, str]) -> None:
    slices = found(variables, *map(running, _NAMES), etag="")

    assert (slices.slices, slices.sampled) == (_SLICES, 0)
    assert {each.slices for each in held(slices).values()} == {0}


@pytest.mark.parametrize(
    ("changed", "rule"),
    [
        ({}, "same_zone"),
        ({"HIT_VALUE_USD_PER_MILLION": "60"}, "any_zone"),
        ({"REDIS_INSTANCE_TYPE": "t4g.micro"}, "slower"),
        ({"REDIS_INSTANCE_TYPE": ""}, "unknown_bandwidth"),
        ({"TAKES_GUESTS": "false"}, "no_guests"),
    ],
    ids=str,
)
def test_nodes_are_asked_only_where_slices_pay(variables: dict[str, str], changed: dict[str, str], rule: str) -> None:
    nodes = found(variables | changed).nodes

    assert nodes is not None
    assert nodes.rule == rule
    assert bool(nodes.homes) == (rule in ("same_zone", "any_zone"))


def test_a_stack_without_nodes_and_express_has_neither(variables: dict[str, str]) -> None:
    slices = found(variables | {"REDIS_NODES": ""})

    assert (slices.nodes, slices.express) == (None, None)


@pytest.mark.parametrize(("hit_value", "copy_at", "stored"), [("10", 1, 2), ("0", 9, 2)])
def test_s3_express_has_the_copies_that_are_there(
    variables: dict[str, str], hit_value: str, copy_at: int, stored: int
) -> None:
    settings = variables | _WITH_EXPRESS | {"HIT_VALUE_USD_PER_MILLION": hit_value}
    to_express = Clients("control", session=boto3.Session(region_name="us-east-1"), endpoint_urls=URLS)
    etag = clients().s3.head_object(Bucket=BUCKET, Key=_KEY)["ETag"]
    tiers = SliceTiers.of(settings, to_express)
    copies = make_copies(to_express)
    names = SliceNames(to_express.s3.meta.endpoint_url, BUCKET)
    first, *_, last = names.slices(Version(_KEY, key_hash(_KEY), etag, _SIZE), 0, _SIZE)
    for each, size_bytes in ((first, SLICE_BYTES), (last, _TAIL)):
        copies.put(each.name, bytes(size_bytes), replaces="")

    express = tiers.slices_of(_KEY, ObjectHead(exists=True, size_bytes=_SIZE, etag=etag), [], now_us=1).express

    assert express is not None
    assert (express.copy_at, express.held.stored) == (copy_at, stored)
    assert express.held.stored_bytes == (SLICE_BYTES + _TAIL if stored else 0)


def test_s3_express_that_does_not_answer_is_named(variables: dict[str, str]) -> None:
    away = Clients("read", endpoint_urls={"express": "http://127.0.0.1:9"})
    head = ObjectHead(exists=True, size_bytes=_SIZE, etag='"1"')

    express = SliceTiers.of(variables | _WITH_EXPRESS, away).slices_of(_KEY, head, [], now_us=1).express

    assert express is not None
    assert (express.held.stored, express.held.stored_bytes) == (None, None)
    assert "http://127.0.0.1:9" in express.held.problem
