"""Redis control function: every step of the machines that touches a node, by its `op`, and writes to the origin."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from burstcache.adapters.clients import Clients
from burstcache.adapters.clock import SystemClock
from burstcache.adapters.executions import Executions
from burstcache.adapters.instances import Instances
from burstcache.adapters.key_table import KeyTable
from burstcache.adapters.node_table import NodeTable
from burstcache.adapters.object_store import ObjectStore
from burstcache.adapters.redis_objects import RedisObjects
from burstcache.adapters.relay import RelayRequests
from burstcache.adapters.secrets import Secrets
from burstcache.control.key_on_node import Life
from burstcache.control.operations import RedisControl
from burstcache.logs import logger
from burstcache.settings import settings

Event = dict[str, Any]

_OPERATIONS: dict[str, Callable[[RedisControl, Event], Event]] = {
    # key_lifecycle
    "join": lambda control, e: control.key(e["key_hash"]).join(_life(e), e["token"]),
    "seed": lambda control, e: control.key(e["key_hash"]).seed(_life(e), e["generation"]),
    "leave": lambda control, e: control.key(e["key_hash"]).leave(
        _life(e), queue_us=e["queue_us"], is_failed=e["is_failed"], failures=e["failures"]
    ),
    # redis_node
    "start_node": lambda control, e: control.node(e["node"]).start(e["generation"]),
    "await_node": lambda control, e: control.node(e["node"]).await_ready(e["generation"]),
    "check_node": lambda control, e: control.node(e["node"]).check(
        e["generation"], check_at_us=int(e["check_at_us"] or 0), checks=e["checks"]
    ),
    "stop_node": lambda control, e: control.node(e["node"]).stop(e["generation"]),
    "abandon_node": lambda control, e: control.node(e["node"]).abandon(e["generation"]),
    # by hand
    "hold": lambda control, e: control.hold(e["node"], e["for_s"]),
    "release": lambda control, e: control.node(e["node"]).stop_by_hand(),
    "ping": lambda control, e: control.ping(e["node"]),
    "stop_cache": lambda control, e: control.stop_cache(e["key"]),
}


@cache
def _control() -> RedisControl:
    environment, clock, clients = settings(), SystemClock(), Clients("control")
    secrets = Secrets(clients.secrets)
    return RedisControl(
        nodes=NodeTable(environment.table_name, clients.dynamodb),
        keys=KeyTable(environment.table_name, clients.dynamodb, clock),
        executions=Executions(clients.states),
        instances=Instances(environment.instance_ids, clients.ec2, clock),
        objects=ObjectStore(environment.bucket_name, clients.s3),
        relay=RelayRequests(environment.relay, secrets, clock),
        store=cache(lambda name: RedisObjects(environment.node(name), secrets, environment.redis_secret_arn)),
        node_names=environment.node_names,
        machine_arn=environment.redis_node_arn,
        max_object_bytes=environment.max_object_bytes,
        parameters=environment.parameters,
        clock=clock,
    )


def handler(event: Event, context: Any) -> Event:
    """Run one operation, or follow an S3 event of the origin bucket."""
    if event.get("source") == "aws.s3":
        answer = _control().origin_changed(event["detail"]["object"]["key"])
    else:
        answer = _OPERATIONS[event["op"]](_control(), event)
    loggable = {name: value for name, value in event.items() if name != "token"}  # a token lets its reader end the task
    logger().info(event.get("op", "origin_changed"), extra={"event": loggable, "answer": answer})
    return answer


def _life(event: Event) -> Life:
    return Life(event["key"], event["key_hash"], event["epoch"])
