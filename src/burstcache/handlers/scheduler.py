"""Scheduler function: an event of the bus in, one decision out."""

from __future__ import annotations

import os
from typing import Any

from burstcache.adapters.clients import Clients
from burstcache.adapters.clock import SystemClock
from burstcache.adapters.executions import Executions
from burstcache.adapters.hot_keys import HotKeys
from burstcache.adapters.key_table import KeyTable
from burstcache.adapters.node_table import NodeTable
from burstcache.control.scheduler import Scheduler
from burstcache.core.policy import Request
from burstcache.handlers._init import at_init
from burstcache.logs import logger
from burstcache.settings import SchedulerSettings, names_of


@at_init
def _scheduler() -> Scheduler:
    settings, clock, clients = SchedulerSettings.read(os.environ), SystemClock(), Clients("control")
    keys = KeyTable(settings.table_name, clients.dynamodb, clock)
    return Scheduler(
        keys=keys,
        nodes=NodeTable(settings.table_name, clients.dynamodb),
        hot_keys=HotKeys(keys, settings.max_hot_keys, clients.dynamodb, clock),
        executions=Executions(clients.states),
        machine_arn=settings.key_lifecycle_arn,
        node_names=names_of(settings.redis_nodes),
        max_object_bytes=settings.max_object_bytes,
        parameters=settings.parameters,
        clock=clock,
    )


def handler(event: dict[str, Any], context: Any) -> dict[str, str]:
    """Handle ObjectRequested (S3 served a GET) or KeyStartRequested (a person starts a key)."""
    detail = event["detail"]
    if event["detail-type"] == "KeyStartRequested":
        outcome = _scheduler().start_by_hand(detail["key"])
    else:
        request = Request(detail["at_us"], detail["request_id"])
        outcome = _scheduler().observe(detail["key"], request, etag=detail["etag"], size_bytes=detail["size_bytes"])
    if outcome != "remembered":
        logger().info("key %s", outcome, extra={"key": detail["key"]})
    return {"outcome": outcome}
