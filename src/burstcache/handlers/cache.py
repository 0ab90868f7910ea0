"""Cache function: holds one object for as long as it is hot (the thesis's Lambda layer, 4.4)."""

from __future__ import annotations

import os
from functools import cache
from typing import Any

from burstcache.adapters.executions import Executions
from burstcache.adapters.key_table import KeyTable
from burstcache.adapters.node_table import NodeTable
from burstcache.adapters.object_store import ObjectStore
from burstcache.control.cache_environment import CacheEnvironment, warm_copies
from burstcache.control.cache_life import CacheTask, CacheTools
from burstcache.logs import logger
from burstcache.settings import settings

_WARM_SHARE = 4  # of the function's memory a quarter; the interpreter, the libraries and messages take the rest


@cache
def _environment() -> CacheEnvironment:
    known = settings()
    tools = CacheTools(
        keys=KeyTable(known.table_name),
        nodes=NodeTable(known.table_name),
        executions=Executions(),
        objects=ObjectStore(known.bucket_name),
        node_names=tuple(node.name for node in known.redis_nodes),
        max_object_bytes=known.max_object_bytes,
        parameters=known.parameters,
    )
    memory_mb = int(os.environ["AWS_LAMBDA_FUNCTION_MEMORY_SIZE"])
    return CacheEnvironment(known, tools, warm_copies(memory_mb * 1024 * 1024 // _WARM_SHARE))


def handler(event: dict[str, Any], context: Any) -> dict[str, str]:
    """Serve `event["key"]` until its life is over; the state machine hears of it by the token."""
    task = CacheTask(event["key"], event["key_hash"], event["epoch"], event["token"], context.aws_request_id)
    end = _environment().run(task, remaining_ms=context.get_remaining_time_in_millis())
    logger().info("life %s", end, extra={"key": task.key, "epoch": task.epoch})
    return {"end": end}
