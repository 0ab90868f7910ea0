"""The cache function, which holds one object while the object is hot (the thesis's Lambda layer, section 4.4)."""

from __future__ import annotations

import os
import secrets
from typing import Any

from burstcache.adapters.clients import Clients
from burstcache.adapters.clock import SystemClock
from burstcache.adapters.event_publisher import EventPublisher
from burstcache.adapters.executions import Executions
from burstcache.adapters.key_table import KeyTable
from burstcache.adapters.node_table import NodeTable
from burstcache.adapters.object_store import ObjectStore
from burstcache.adapters.pause_switch import PauseSwitch
from burstcache.adapters.relay_listener import RelayListener
from burstcache.adapters.secrets import Secrets
from burstcache.adapters.warm_up import warm_up
from burstcache.control.cache_environment import CacheEnvironment, warm_copies
from burstcache.control.cache_tools import CacheTask, CacheTools
from burstcache.control.meter import meter_of
from burstcache.handlers._init import at_init, logs_requests
from burstcache.handlers._self_test import answers_self_test
from burstcache.logs import logger
from burstcache.settings.cache import CacheSettings
from burstcache.traces import annotate, traces_requests

_WARM_SHARE = 4  # a quarter of the function's memory; the interpreter, the libraries and messages take the rest


@at_init
def environment() -> CacheEnvironment:
    """Build the environment, which serves one key at a time."""
    logger()  # set up in INIT, since each life logs a line
    settings, clock = CacheSettings.read(os.environ), SystemClock()
    control, patient = Clients("control"), Clients("patient")
    tools = CacheTools(
        keys=KeyTable(settings.table_name, control.dynamodb, clock),
        nodes=NodeTable(settings.table_name, control.dynamodb, clock),
        executions=Executions(control.states),
        objects=ObjectStore(settings.bucket_name, patient.s3),
        pauses=PauseSwitch(settings.table_name, control.dynamodb, clock),
        max_object_bytes=settings.max_object_bytes,
        policy=settings.policy,
        clock=clock,
        meter=meter_of(settings),
        reports=EventPublisher(settings.bus_name, control.events, clock) if settings.policy.use else None,
    )
    relay = RelayListener(settings.relay, Secrets(patient.secrets))
    warm_up(patient.s3.get_object, Bucket=settings.bucket_name, Key="key")
    warm_up(control.dynamodb.update_item, TableName=settings.table_name, Key={})
    environment = CacheEnvironment(tools, relay, warm_copies(settings.memory_mb * 1024 * 1024 // _WARM_SHARE))
    environment.connect_ahead()
    return environment


@traces_requests
@logs_requests
@answers_self_test("cache")
def handler(event: dict[str, Any], context: Any) -> dict[str, str]:
    """Serve `event["key"]` until its life is over, and report the end to Step Functions."""
    holder = f"{context.aws_request_id}/{secrets.token_hex(4)}"  # an event may arrive twice with the same request ID
    task = CacheTask(event["key"], event["key_hash"], event["epoch"], event["attempt"], event["token"], holder)
    annotate(key_hash=task.hash)
    end = environment().run(task, remaining_ms=context.get_remaining_time_in_millis())
    logger().info("life %s", end, extra={"key": task.key, "key_hash": task.hash, "epoch": task.epoch})
    return {"end": end}
