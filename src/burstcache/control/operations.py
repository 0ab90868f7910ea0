"""Redis control put together: which node a key belongs to, and what talks to it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from burstcache.adapters.clock import Clock
from burstcache.adapters.executions import Executions
from burstcache.adapters.instances import Instances
from burstcache.adapters.key_table import KeyTable
from burstcache.adapters.node_table import NodeTable
from burstcache.adapters.object_store import ObjectStore
from burstcache.adapters.redis_objects import RedisObjects
from burstcache.control.key_on_node import KeyOnNode
from burstcache.control.node_life import NodeLife
from burstcache.core.errors import RedisDownError
from burstcache.core.keys import key_hash, node_for
from burstcache.core.parameters import Parameters

_ANSWER_WITHIN_S = 2.0


class Requests(Protocol):
    """What Redis control needs of the relay."""

    def request(self, subject: str, payload: bytes, *, timeout_s: float) -> bytes | None:
        """Return the answer of the process that holds `subject`; None: none does. Raise RelayDownError."""


@dataclass(frozen=True, slots=True)
class RedisControl:
    """What one environment of the Redis control function works with."""

    nodes: NodeTable
    keys: KeyTable
    executions: Executions
    instances: Instances
    objects: ObjectStore
    relay: Requests
    store: Callable[[str], RedisObjects]  # by the node's name; raises NodeAbsentError
    node_names: Sequence[str]
    machine_arn: str
    max_object_bytes: int
    parameters: Parameters
    clock: Clock

    def node(self, name: str) -> NodeLife:
        """Return what is done for a node."""
        return NodeLife(
            node=name,
            nodes=self.nodes,
            keys=self.keys,
            executions=self.executions,
            instances=self.instances,
            machine_arn=self.machine_arn,
            parameters=self.parameters,
            store=lambda: self.store(name),
            clock=self.clock,
        )

    def key(self, hash_: str) -> KeyOnNode:
        """Return what is done for a key, on the node that it belongs to."""
        return self._key_on(node_for(hash_, self.node_names))

    def hold(self, node: str, for_s: int) -> dict[str, Any]:
        """Keep a node running for `for_s` seconds, whether or not a key is on it."""
        self.store(node)
        return self._key_on(node).hold(for_s)

    def ping(self, node: str) -> dict[str, Any]:
        """Return whether a node's Redis answers, and the state of its instance."""
        answer: dict[str, Any] = {"instance": self.instances.state(node), "phase": self.nodes.read(node).phase}
        try:
            self.store(node).ping()
        except RedisDownError as error:
            return answer | {"pong": False, "reason": str(error)}
        return answer | {"pong": True}

    def stop_cache(self, key: str) -> dict[str, Any]:
        """Make the cache function that holds a key end, if there is one."""
        return {"stopped": bool(self._ask_cache(key_hash(key), {"op": "stop"}))}

    def origin_changed(self, key: str) -> dict[str, Any]:
        """Follow a write to an object of the origin."""
        return self.key(key_hash(key)).origin_changed(key)

    def _key_on(self, node: str) -> KeyOnNode:
        return KeyOnNode(
            node=node,
            node_life=self.node(node),
            nodes=self.nodes,
            keys=self.keys,
            executions=self.executions,
            objects=self.objects,
            store=lambda: self.store(node),
            ask_cache=self._ask_cache,
            max_object_bytes=self.max_object_bytes,
            clock=self.clock,
        )

    def _ask_cache(self, hash_: str, message: dict[str, Any]) -> dict[str, Any]:
        """Return what the cache function of a key answers; empty if none holds the key."""
        answer = self.relay.request(f"control.{hash_}", json.dumps(message).encode(), timeout_s=_ANSWER_WITHIN_S)
        return json.loads(answer) if answer else {}
