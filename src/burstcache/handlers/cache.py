"""Cache function: holds one object for as long as it is hot (the thesis's Lambda layer, 4.4)."""

from __future__ import annotations

import os
from functools import cache
from typing import Any

from burstcache.adapters.clients import Clients
from burstcache.adapters.clock import SystemClock
from burstcache.adapters.executions import Executions
from burstcache.adapters.key_table import KeyTable
from burstcache.adapters.node_table import NodeTable
from burstcache.adapters.object_store import ObjectStore
from burstcache.adapters.relay import RelayListener
from burstcache.adapters.secrets import Secrets
from burstcache.control.cache_environment import CacheEnvironment, warm_copies
from burstcache.control.cache_life import CacheTask, CacheTools
from burstcache.logs import logger
from burstcache.settings import settings

_WARM_SHARE = 4  # a quarter of the function's memory; the interpreter, the libraries and messages take the rest


@cache
def _environment() -> CacheEnvironment:
    environment, clock = settings(), SystemClock()
    control, patient = Clients("control"), Clients("patient")
    tools = CacheTools(
        keys=KeyTable(environment.table_name, control.dynamodb, clock),
        nodes=NodeTable(environment.table_name, control.dynamodb),
        executions=Executions(control.states),
        objects=ObjectStore(environment.bucket_name, patient.s3),
        max_object_bytes=environment.max_object_bytes,
        parameters=environment.parameters,
        clock=clock,
    )
    relay = RelayListener(environment.relay, Secrets(patient.secrets))
    memory_mb = int(os.environ["AWS_LAMBDA_FUNCTION_MEMORY_SIZE"])
    return CacheEnvironment(tools, relay, warm_copies(memory_mb * 1024 * 1024 // _WARM_SHARE))


def handler(event: dict[str, Any], context: Any) -> dict[str, str]:
    """Serve `event["key"]` until its life is over, and report the end through the task token."""
    task = CacheTask(event["key"], event["key_hash"], event["epoch"], event["token"], context.aws_request_id)
    end = _environment().run(task, remaining_ms=context.get_remaining_time_in_millis())
    logger().info("life %s", end, extra={"key": task.key, "epoch": task.epoch})
    return {"end": end}
