"""The scheduler function, which makes one decision for each event on the bus."""

from __future__ import annotations

import os
from typing import Any

from burstcache.access import names_of
from burstcache.adapters.clients import Clients
from burstcache.adapters.clock import SystemClock
from burstcache.adapters.executions import Executions
from burstcache.adapters.functions import start_by_name
from burstcache.adapters.hot_keys import HotKeys
from burstcache.adapters.key_table import KeyTable
from burstcache.adapters.node_table import NodeTable
from burstcache.adapters.pause_switch import PauseSwitch
from burstcache.adapters.use_table import UseTable
from burstcache.adapters.warm_up import warm_up
from burstcache.control.node_runs import NodeRuns
from burstcache.control.scheduler import Scheduler
from burstcache.control.use_scheduler import ReportScheduler, report_scheduler
from burstcache.core.keys import key_hash
from burstcache.core.messages.events import LAMBDA, CacheFunctionFailed, KeyServed, ObjectRequested
from burstcache.core.policy import RecordedRequest
from burstcache.handlers._init import at_init, logs_requests
from burstcache.handlers._self_test import answers_self_test
from burstcache.logs import logger
from burstcache.settings.scheduler import SchedulerSettings
from burstcache.traces import traces_requests


@at_init
def scheduler() -> ReportScheduler:
    """Build the scheduler for the stack's policy."""
    settings, clock, clients = SchedulerSettings.read(os.environ), SystemClock(), Clients("control")
    warm_up(clients.dynamodb.update_item, TableName=settings.table_name, Key={})
    keys = KeyTable(settings.table_name, clients.dynamodb, clock)
    nodes = NodeTable(settings.table_name, clients.dynamodb, clock)
    executions, node_names = Executions(clients.states), names_of(settings.redis_nodes)
    scheduler = Scheduler(
        keys=keys,
        nodes=nodes,
        hot_keys=HotKeys(keys, settings.max_hot_keys, clients.dynamodb, clock),
        pauses=PauseSwitch(settings.table_name, clients.dynamodb, clock),
        executions=executions,
        start_cache=start_by_name(lambda: clients.functions, settings.cache_function_name),
        machine_arn=settings.key_lifecycle_arn,
        node_names=node_names,
        has_relay=settings.has_relay,
        max_object_bytes=settings.max_object_bytes,
        parameters=settings.policy.parameters,
        clock=clock,
    )
    runs = NodeRuns(nodes, executions, settings.redis_node_arn, clock, peers=node_names)
    uses = UseTable(settings.table_name, clients.dynamodb, clock)
    return report_scheduler(settings.policy, scheduler, uses, runs.boot)


@traces_requests
@logs_requests
@answers_self_test("scheduler")
def handler(event: dict[str, Any], context: Any) -> dict[str, str]:
    """Handle one event from the bus. Return the outcome of its key, or the outcomes by key for a batch.

    ObjectRequested: S3 served a GET. RequestsServed: GETs of several keys. KeyStartRequested: a person starts a key.
    From Lambda: an invocation of the cache function has failed.
    """
    detail = event["detail"]
    if event.get("source") == LAMBDA:
        return {"outcome": _replaced(detail)}
    match event["detail-type"]:
        case "KeyStartRequested":
            key, outcome = detail["key"], scheduler().start_by_hand(detail["key"])
            return {"outcome": _logged(key, outcome)}
        case "RequestsServed":
            return {key: _logged(key, outcome) for key, outcome in scheduler().observe_all(detail["keys"]).items()}
        case _:
            ((key, outcome),) = scheduler().observe_all([_served(detail)]).items()
            return {"outcome": _logged(key, outcome)}


def _served(detail: ObjectRequested) -> KeyServed:
    return KeyServed(
        key=detail["key"],
        requests=[RecordedRequest(detail["at_us"], detail["request_id"]).encode()],
        size_bytes=detail["size_bytes"],
        etag=detail["etag"],
    )


def _replaced(failed: CacheFunctionFailed) -> str:
    task, response = failed["requestPayload"], failed.get("responsePayload") or {}
    condition = failed.get("requestContext", {}).get("condition", "Lambda does not say why")
    cause = f"{response.get('errorType', 'error')}: {response.get('errorMessage', condition)}"
    return _logged(task["key"], scheduler().replace_dead(task, cause))


def _logged(key: str, outcome: str) -> str:
    if outcome != "remembered":
        logger().info("key %s", outcome, extra={"key": key, "key_hash": key_hash(key)})
    return outcome
