"""Redis control put together: which node a key belongs to, and what talks to it."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from burstcache.adapters.executions import Executions
from burstcache.adapters.instances import Instances
from burstcache.adapters.key_table import KeyTable
from burstcache.adapters.node_table import NodeTable
from burstcache.adapters.object_store import ObjectStore
from burstcache.adapters.redis_objects import RedisStore
from burstcache.adapters.relay import RelayRequests
from burstcache.control.key_on_node import RedisKeys
from burstcache.control.node_life import NodeLife
from burstcache.core.errors import RedisDownError
from burstcache.core.keys import key_hash, node_for
from burstcache.serve.redis_tier import connect
from burstcache.settings import Settings

_ANSWER_WITHIN_S = 2.0


class RedisControl:
    """What one environment of the Redis control function keeps."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._nodes = NodeTable(settings.table_name)
        self._keys = KeyTable(settings.table_name)
        self._executions = Executions()
        self._instances = Instances(settings)
        self._objects = ObjectStore(settings.bucket_name)
        self._relay = RelayRequests(settings)
        self._store = cache(self._connect)

    def close(self) -> None:
        """Leave the relay."""
        self._relay.close()

    def node(self, name: str) -> NodeLife:
        """Return what is done for a node."""
        return NodeLife(
            nodes=self._nodes,
            keys=self._keys,
            executions=self._executions,
            instances=self._instances,
            machine_arn=self._settings.redis_node_arn,
            parameters=self._settings.parameters,
            store=lambda: self._store(name),
        )

    def keys(self, hash_: str) -> RedisKeys:
        """Return what is done for a key, on the node that it belongs to."""
        return self._keys_on(node_for(hash_, [node.name for node in self._settings.redis_nodes]))

    def hold(self, node: str, for_s: int) -> dict[str, Any]:
        """Keep a node running for `for_s` seconds, whether or not a key is on it."""
        self._settings.node(node)
        return self._keys_on(node).hold(for_s)

    def ping(self, node: str) -> dict[str, Any]:
        """Tell whether a node's Redis answers, and the state of its instance."""
        answer: dict[str, Any] = {"instance": self._instances.state(node), "phase": self._nodes.read(node).phase}
        try:
            self._store(node).ping()
        except RedisDownError as error:
            return answer | {"pong": False, "reason": str(error)}
        return answer | {"pong": True}

    def stop_cache(self, key: str) -> dict[str, Any]:
        """Tell the cache function that holds a key to end, if there is one."""
        return {"stopped": bool(self._ask_cache(key_hash(key), {"op": "stop"}))}

    def origin_changed(self, key: str) -> dict[str, Any]:
        """Follow a write to an object of the origin."""
        return self.keys(key_hash(key)).origin_changed(key)

    def _keys_on(self, node: str) -> RedisKeys:
        return RedisKeys(
            node=node,
            node_life=self.node(node),
            nodes=self._nodes,
            keys=self._keys,
            executions=self._executions,
            objects=self._objects,
            store=lambda: self._store(node),
            ask_cache=self._ask_cache,
            max_object_bytes=self._settings.max_object_bytes,
        )

    def _connect(self, node: str) -> RedisStore:
        return RedisStore(connect(self._settings.node(node), self._settings.redis_secret_arn))

    def _ask_cache(self, hash_: str, message: dict[str, Any]) -> dict[str, Any]:
        """Return what the cache function of a key answers; empty if nobody holds the key."""
        answer = self._relay.request(f"control.{hash_}", json.dumps(message).encode(), timeout_s=_ANSWER_WITHIN_S)
        return json.loads(answer) if answer else {}
