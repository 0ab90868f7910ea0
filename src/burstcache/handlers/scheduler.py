"""Scheduler function: an event of the bus in, one decision out."""

from __future__ import annotations

from functools import cache
from typing import Any

from burstcache.adapters.clock import now_us
from burstcache.adapters.executions import Executions
from burstcache.adapters.hot_keys import HotKeys
from burstcache.adapters.key_table import KeyTable
from burstcache.adapters.node_table import NodeTable
from burstcache.control.scheduler import Scheduler
from burstcache.core.policy import Request
from burstcache.logs import logger
from burstcache.settings import settings


@cache
def _scheduler() -> Scheduler:
    known = settings()
    keys = KeyTable(known.table_name)
    return Scheduler(
        keys=keys,
        nodes=NodeTable(known.table_name),
        hot_keys=HotKeys(keys, known.max_hot_keys),
        executions=Executions(),
        machine_arn=known.key_lifecycle_arn,
        node_names=[node.name for node in known.redis_nodes],
        max_object_bytes=known.max_object_bytes,
        parameters=known.parameters,
    )


def handler(event: dict[str, Any], context: Any) -> dict[str, str]:
    """Handle ObjectRequested (S3 served a GET) or KeyStartRequested (a person starts a key)."""
    detail = event["detail"]
    if event["detail-type"] == "KeyStartRequested":
        outcome = _scheduler().start_by_hand(detail["key"], now_us=now_us())
    else:
        outcome = _scheduler().observe(
            detail["key"],
            Request(detail["at_us"], detail["request_id"]),
            etag=detail["etag"],
            size_bytes=detail["size_bytes"],
            now_us=now_us(),
        )
    if outcome != "remembered":
        logger().info("key %s", outcome, extra={"key": detail["key"]})
    return {"outcome": outcome}
