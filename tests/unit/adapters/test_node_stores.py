"""Stores of nodes by name: a task's address comes from its row, and changes with each run."""

from __future__ import annotations

from typing import Any

import pytest

from burstcache.access import RedisAccess, RedisNode, parse_nodes
from burstcache.adapters.node_stores import NodeStores
from burstcache.adapters.redis_objects import RedisObjects
from burstcache.core.errors import NodeAbsentError, RedisDownError
from burstcache.core.rows import NodeRow

_NODES = parse_nodes("node-1=@:6379,node-2=i-0abc@10.0.0.9:6379")
_NO_SECRETS: Any = None


class _Rows:
    def __init__(self) -> None:
        self.hosts = {"node-1": ""}
        self.reads = 0

    def read(self, name: str) -> NodeRow:
        self.reads += 1
        return NodeRow(name, host=self.hosts[name])


@pytest.fixture
def rows() -> Any:
    return _Rows()


def _stores(rows: Any) -> tuple[NodeStores, list[RedisNode]]:
    made: list[RedisNode] = []

    def make(node: RedisNode) -> RedisObjects:
        made.append(node)
        return RedisObjects(node, _NO_SECRETS, RedisAccess())

    return NodeStores(_NODES, rows, make), made


def test_each_run_of_a_task_has_a_store_at_its_address(rows: Any) -> None:
    stores, made = _stores(rows)
    rows.hosts["node-1"] = "10.0.0.1"
    first = stores("node-1")

    assert stores("node-1") is first
    rows.hosts["node-1"] = "10.0.0.2"
    assert stores("node-1") is not first

    assert [node.host for node in made] == ["10.0.0.1", "10.0.0.2"]


def test_a_node_on_an_instance_is_found_without_its_row(rows: Any) -> None:
    stores, made = _stores(rows)

    assert stores("node-2") is stores("node-2")

    assert ([node.host for node in made], rows.reads) == (["10.0.0.9"], 0)


def test_a_task_that_has_not_started_has_a_store_that_does_not_answer(rows: Any) -> None:
    store = _stores(rows)[0]("node-1")

    with pytest.raises(RedisDownError, match="node-1 has no address: its task has not started"):
        store.ping()


def test_a_node_that_the_stack_does_not_have_is_an_error(rows: Any) -> None:
    with pytest.raises(NodeAbsentError, match="node-3"):
        _stores(rows)[0]("node-3")
