"""The settings of a reader."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from burstcache.access import ExpressAccess, RedisAccess, RedisNode, RelayAccess
from burstcache.settings.environment import Settings, is_true, text, text_or_empty, whole_number
from burstcache.settings.places import express_in, nodes_in, redis_in, relay_in


@dataclass(frozen=True)
class ReaderSettings(Settings):
    """Environment of a reader: the proxy, or a client in the caller's process."""

    table_name: Annotated[str, text, "TABLE_NAME"]
    bucket_name: Annotated[str, text, "BUCKET_NAME"]
    origin_prefix: Annotated[str, text_or_empty, "ORIGIN_PREFIX"]  # prefix of all keys; empty means the whole bucket
    bus_name: Annotated[str, text_or_empty, "BUS_NAME"]  # if empty, keys never get hot
    relay: Annotated[RelayAccess, relay_in]
    redis: Annotated[RedisAccess, redis_in]
    redis_nodes: Annotated[tuple[RedisNode, ...], nodes_in]
    max_object_bytes: Annotated[int, whole_number, "MAX_OBJECT_BYTES"]
    express: Annotated[ExpressAccess, express_in]
    takes_guests: Annotated[bool, is_true, "TAKES_GUESTS"]  # whether the stack's policy stores guests on nodes
    origin_function_name: Annotated[str, text_or_empty, "ORIGIN_FUNCTION_NAME"]  # for writers; empty without a stack
