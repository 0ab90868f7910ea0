"""The settings of a reader."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from burstcache.access import ExpressAccess, RedisAccess, RedisNode, RelayAccess
from burstcache.settings.environment import Settings, given, is_true, text, whole
from burstcache.settings.places import express_in, nodes_in, redis_in, relay_in


@dataclass(frozen=True)
class ReaderSettings(Settings):
    """The settings of a reader: of the proxy, or of a client in the caller's process."""

    table_name: Annotated[str, text, "TABLE_NAME"]
    bucket_name: Annotated[str, text, "BUCKET_NAME"]
    origin_prefix: Annotated[str, given, "ORIGIN_PREFIX"]  # of all keys that are read; empty: the whole bucket is
    bus_name: Annotated[str, given, "BUS_NAME"]  # empty: no key gets hot
    relay: Annotated[RelayAccess, relay_in]
    redis: Annotated[RedisAccess, redis_in]
    redis_nodes: Annotated[tuple[RedisNode, ...], nodes_in]
    max_object_bytes: Annotated[int, whole, "MAX_OBJECT_BYTES"]
    express: Annotated[ExpressAccess, express_in]
    takes_guests: Annotated[bool, is_true, "TAKES_GUESTS"]  # nodes do, under the stack's policy
    origin_function_name: Annotated[str, given, "ORIGIN_FUNCTION_NAME"]  # writers ask it; empty: there is no stack
