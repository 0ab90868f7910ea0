"""The Redis control function, which runs operations on nodes and cache functions, and handles events of EC2 and ECS."""

from __future__ import annotations

import os
from typing import Any, cast

from burstcache.access import RedisNode, names_of
from burstcache.adapters.calls import translated_transient_errors
from burstcache.adapters.clients import Clients
from burstcache.adapters.clock import SystemClock
from burstcache.adapters.digest_table import DigestTable
from burstcache.adapters.executions import Executions
from burstcache.adapters.key_table import KeyTable
from burstcache.adapters.machines import NodeMachines
from burstcache.adapters.node_stores import NodeStores
from burstcache.adapters.node_table import NodeTable
from burstcache.adapters.object_store import ObjectStore
from burstcache.adapters.pause_switch import PauseSwitch
from burstcache.adapters.redis_objects import RedisObjects
from burstcache.adapters.relay_requests import RelayRequests
from burstcache.adapters.secrets import Secrets
from burstcache.adapters.use_table import UseTable
from burstcache.control.meter import meter_of
from burstcache.control.operations import RedisControl
from burstcache.core.messages.answers import Answer
from burstcache.core.messages.operations import Operation
from burstcache.handlers._init import at_init, logs_requests
from burstcache.handlers._self_test import answers_self_test
from burstcache.logs import logger
from burstcache.settings.redis_control import RedisControlSettings
from burstcache.traces import annotate, traces_requests


@at_init
def control() -> RedisControl:
    """Build Redis control."""
    logger()  # set up in INIT, since each operation logs a line
    settings, clock, clients = RedisControlSettings.read(os.environ), SystemClock(), Clients("control")
    secrets = Secrets(clients.secrets)

    nodes = NodeTable(settings.table_name, clients.dynamodb, clock)

    def make_store(node: RedisNode) -> RedisObjects:
        return RedisObjects(node, secrets, settings.redis)

    return RedisControl(
        node_names=names_of(settings.redis_nodes),
        state_names=names_of(settings.state_nodes),
        saves_state=settings.state_persistence == "rdb",
        always_on=names_of(settings.redis_nodes[: settings.always_on_nodes]),
        nodes=nodes,
        keys=KeyTable(settings.table_name, clients.dynamodb, clock),
        uses=UseTable(settings.table_name, clients.dynamodb, clock),
        digest=DigestTable(settings.table_name, clients.dynamodb),
        executions=Executions(clients.states),
        machines=NodeMachines.of(
            settings.redis_nodes + settings.state_nodes,
            clients,
            clock,
            tasks=settings.tasks,
            state_tasks=settings.state_tasks,
        ),
        pauses=PauseSwitch(settings.table_name, clients.dynamodb, clock),
        objects=ObjectStore(settings.bucket_name, clients.s3),
        relay=RelayRequests(settings.relay, secrets, clock),
        store=NodeStores(settings.redis_nodes, nodes, make_store),
        machine_arn=settings.redis_node_arn,
        max_object_bytes=settings.max_object_bytes,
        policy=settings.policy,
        clock=clock,
        meter=meter_of(settings),
        state_meter=meter_of(settings, settings.state_node),
        hours_per_day=settings.node_hours_per_day,
    )


@traces_requests
@logs_requests
@answers_self_test("redis_control")
def handler(event: dict[str, Any], context: Any) -> Answer:
    """Run the operation named by `op`, or handle an event of EC2 about an instance, or of ECS about a task."""
    answer: Answer
    annotate(**{name: event[name] for name in ("op", "node", "key_hash") if name in event})
    with translated_transient_errors():
        if event.get("source") == "aws.ec2":
            answer = control().follow_instance(event["detail"]["instance-id"])
        elif event.get("source") == "aws.ecs":
            answer = control().follow_task(event["detail"])
        else:
            answer = control().run(cast(Operation, event))
    loggable = {name: value for name, value in event.items() if name != "token"}  # whoever has a token can end its task
    logger().info("redis control", extra={"event": loggable, "answer": answer})
    return answer
