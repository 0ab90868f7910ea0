"""Scheduler function: an event of the bus in, one decision out."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from burstcache.adapters.clients import Clients
from burstcache.adapters.clock import SystemClock
from burstcache.adapters.executions import Executions
from burstcache.adapters.hot_keys import HotKeys
from burstcache.adapters.key_table import KeyTable
from burstcache.adapters.node_table import NodeTable
from burstcache.control.scheduler import Scheduler
from burstcache.core.messages import KeyServed, ObjectRequested
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
    """Handle one event of the bus, and return what became of its key; of a batch, by key.

    ObjectRequested: S3 served a GET. RequestsServed: a reader's memory served GETs of several keys. KeyStartRequested:
    a person starts a key.
    """
    detail = event["detail"]
    match event["detail-type"]:
        case "KeyStartRequested":
            return {"outcome": _logged(detail["key"], _scheduler().start_by_hand(detail["key"]))}
        case "RequestsServed":
            return {served["key"]: _observe(served, served["requests"]) for served in detail["keys"]}
        case _:
            request = Request(detail["at_us"], detail["request_id"])
            return {"outcome": _observe(detail, [request.encode()])}


def _observe(served: ObjectRequested | KeyServed, requests: Sequence[str]) -> str:
    outcome = _scheduler().observe(
        served["key"],
        [Request.decode(text) for text in requests],
        etag=served["etag"],
        size_bytes=served["size_bytes"],
    )
    return _logged(served["key"], outcome)


def _logged(key: str, outcome: str) -> str:
    if outcome != "remembered":
        logger().info("key %s", outcome, extra={"key": key})
    return outcome
