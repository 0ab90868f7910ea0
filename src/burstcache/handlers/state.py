"""The state function: holders acquire, renew and release leases on databases."""

from __future__ import annotations

import os
from typing import Any, cast

from burstcache.access import names_of
from burstcache.adapters.calls import translated_transient_errors
from burstcache.adapters.clients import Clients
from burstcache.adapters.clock import SystemClock
from burstcache.adapters.executions import Executions
from burstcache.adapters.node_table import NodeTable
from burstcache.adapters.pause_switch import PauseSwitch
from burstcache.control.node_runs import NodeRuns
from burstcache.control.state_leases import StateLeases
from burstcache.core.messages.state import DatabaseHeld, StateOperation
from burstcache.handlers._init import at_init, logs_requests
from burstcache.handlers._self_test import answers_self_test
from burstcache.logs import logger
from burstcache.settings.state import StateSettings


@at_init
def leases() -> StateLeases:
    """Build the leases on databases."""
    settings, clock, clients = StateSettings.read(os.environ), SystemClock(), Clients("control")
    nodes, executions = NodeTable(settings.table_name, clients.dynamodb, clock), Executions(clients.states)
    return StateLeases(
        node_names=names_of(settings.state_nodes),
        nodes=nodes,
        runs=NodeRuns(nodes, executions, settings.redis_node_arn, clock),
        executions=executions,
        pauses=PauseSwitch(settings.table_name, clients.dynamodb, clock),
        grace_s=settings.grace_s,
        clock=clock,
    )


@logs_requests
@answers_self_test("state")
def handler(event: dict[str, Any], context: Any) -> DatabaseHeld:
    """Run a holder's operation."""
    with translated_transient_errors():
        answer = leases().run(cast(StateOperation, event))
    loggable = {name: value for name, value in event.items() if name != "token"}  # whoever has a token can end its task
    logger().info("state", extra={"event": loggable, "answer": answer})
    return answer
