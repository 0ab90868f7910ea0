"""The pool control function, which handles hubs' reports, and keeps members alive for the pool's state machine."""

from __future__ import annotations

import os
from typing import Any, cast

from burstcache.adapters.billed import Billed
from burstcache.adapters.calls import translated_transient_errors
from burstcache.adapters.clients import Clients
from burstcache.adapters.clock import SystemClock
from burstcache.adapters.executions import Executions
from burstcache.adapters.functions import invoke_tenant
from burstcache.adapters.hub_service import HubService
from burstcache.adapters.pause_switch import PauseSwitch
from burstcache.adapters.pool_table import PoolTable
from burstcache.control.pool_operations import run
from burstcache.control.pool_tools import PoolTools
from burstcache.core.messages.answers import Done
from burstcache.core.messages.pool import MemberState, Warm
from burstcache.core.messages.pool_control import Package, PoolEnds, PoolOperation, PoolPlan, Rounded, Ticked
from burstcache.core.pool.costs import member_price
from burstcache.core.pool.retention import tenants
from burstcache.core.worth import sheet_of_region
from burstcache.handlers._init import at_init, init_s, logs_requests
from burstcache.handlers._self_test import answers_self_test
from burstcache.logs import logger
from burstcache.settings.pool_control import PoolControlSettings
from burstcache.traces import traces_requests


@at_init
def tools() -> PoolTools:
    """Build the tools of pool control."""
    settings, clock, clients = PoolControlSettings.read(os.environ), SystemClock(), Clients("control")
    member = invoke_tenant(Clients("members").functions, settings.member_function_name)

    def warm(name: str) -> MemberState:
        return cast(MemberState, member(name, Warm(op="warm")))

    return PoolTools(
        table=PoolTable(settings.table_name, clients.dynamodb),
        executions=Executions(clients.states),
        machine_arn=settings.pool_arn,
        pauses=PauseSwitch(settings.table_name, clients.dynamodb, clock),
        members=tuple(tenants(settings.members)),
        price=member_price(sheet_of_region(settings.region), settings.memory_mb),
        keep_s=settings.keep_s,
        hubs=HubService(settings.hub_service, clients.make) if settings.hub_service else None,
        warm=warm,
        clock=clock,
        billed=Billed(clock, init_s()),
    )


@traces_requests
@logs_requests
@answers_self_test("pool_control")
def handler(event: dict[str, Any], context: Any) -> PoolPlan | Ticked | PoolEnds | Rounded | Package | Done:
    """Run an operation of a hub, a reader or the pool's state machine."""
    with translated_transient_errors(), tools().billed.invocation():
        answer = run(tools(), cast(PoolOperation, event))
    # Do not log reports, which come every minute and contain a token for the pool, or code packages.
    if event["op"] not in ("hub", "reader", "code"):
        logger().info("pool control", extra={"event": event, "answer": answer})
    return answer
