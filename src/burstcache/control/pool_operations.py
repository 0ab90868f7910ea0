"""The operations of pool control, for hubs, readers and the pool's state machine."""

from __future__ import annotations

from typing import assert_never

from burstcache.control.package import packed
from burstcache.control.pool_hubs import end_unused_hub, leave, report, report_reader
from burstcache.control.pool_life import is_due, tick
from burstcache.control.pool_rounds import run_round
from burstcache.control.pool_tools import PoolTools
from burstcache.core.messages.answers import Done
from burstcache.core.messages.pool_control import Package, PoolEnds, PoolOperation, PoolPlan, Rounded, Ticked


def run(tools: PoolTools, operation: PoolOperation) -> PoolPlan | Ticked | PoolEnds | Rounded | Package | Done:
    """Run an operation. Raise a BurstcacheError if it fails."""
    match operation["op"]:
        case "hub":
            address, takes_readers = operation["hub"], operation.get("takes_readers", False)
            return report(tools, address, operation["totals"], operation["used"], takes_readers=takes_readers)
        case "reader":
            is_reading = operation.get("is_reading", True)
            return report_reader(tools, operation["id"], operation["totals"], is_reading=is_reading)
        case "code":
            end_unused_hub(tools)
            return Package(zip=packed())
        case "leave":
            leave(tools, operation["id"], operation["totals"])
            return Done()
        case "tick":
            return tick(tools, operation["generation"], operation["part"], ticks=operation["ticks"])
        case "round":
            rows, now_us = tools.table.read(), tools.clock.now_us()
            is_round_due = rows.state.is_kept(now_us) and is_due(rows.state, now_us)
            return Rounded(did_run=is_round_due and run_round(tools, rows) is not None)
        case _:
            assert_never(operation)
