"""Results on a stack's nodes: a node that runs as a task has another address in each run."""

from __future__ import annotations

from typing import Any

from burstcache.adapters.digest_reader import DigestReader, at_once
from burstcache.core.digest import Digest, Route, RunningNode
from burstcache.results.stores.stack_store import Stack, StackStore
from support.clock import ManualClock


class _Node:
    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}
        self.is_closed = False

    def put(self, key: str, data: bytes, *, kept_ms: int) -> None:
        self.values[key] = data

    def close(self) -> None:
        self.is_closed = True


def test_each_run_of_a_node_has_a_store_at_its_address_and_the_former_one_is_closed() -> None:
    clock, made = ManualClock(), dict[str, Any]()
    shown = [RunningNode(7, 2, True, ("node-1",), "10.0.0.1")]
    digest = DigestReader(lambda: Digest(nodes={"node-1": shown[0]}), clock, start=at_once)

    def make_node(route: Route) -> Any:
        return made.setdefault(route.host, _Node())

    store = StackStore(lambda: Stack(digest, make_node, lambda: None), timeout_s=60)
    try:
        store.put("a", b"1", kept_ms=1_000)
        shown[0] = RunningNode(8, 2, True, ("node-1",), "10.0.0.2")
        clock.sleep(3)
        store.put("a", b"2", kept_ms=1_000)
    finally:
        store.close()

    assert {host: node.values for host, node in made.items()} == {"10.0.0.1": {"a": b"1"}, "10.0.0.2": {"a": b"2"}}
    assert made["10.0.0.1"].is_closed
