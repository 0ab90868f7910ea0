"""What hubs and the pool's state machine ask for, by the operation's name."""

from __future__ import annotations

from typing import assert_never

from burstcache.control.pool_hubs import leave, report
from burstcache.control.pool_life import is_due, tick
from burstcache.control.pool_rounds import run_round
from burstcache.control.pool_tools import PoolTools
from burstcache.core.messages.answers import Done
from burstcache.core.messages.pool_control import PoolOperation, PoolPlan, Rounded, Ticked


def run(tools: PoolTools, operation: PoolOperation) -> PoolPlan | Ticked | Rounded | Done:
    """Do what is asked for; raise a BurstcacheError if that fails."""
    match operation["op"]:
        case "hub":
            return report(tools, operation["hub"], operation["totals"], operation["used"])
        case "leave":
            leave(tools, operation["id"], operation["totals"])
            return Done()
        case "tick":
            return tick(tools, operation["generation"], operation["part"], ticks=operation["ticks"])
        case "round":
            rows, now_us = tools.table.read(), tools.clock.now_us()
            is_wanted = rows.state.is_kept(now_us) and is_due(rows.state, now_us)
            return Rounded(did_run=is_wanted and run_round(tools, rows) is not None)
        case _:
            assert_never(operation)
