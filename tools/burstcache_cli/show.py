"""Commands that show a stack as text or JSON."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from burstcache.core.errors import InvalidSettingError
from burstcache.core.pool.costs import member_price
from burstcache.core.worth import sheet_of_region
from burstcache.queries.keys import KeyView, read_keys
from burstcache.queries.nodes import NodeView, read_nodes
from burstcache.queries.pool import PoolView, read_pool
from burstcache.queries.routes import RouteView, read_routes
from burstcache.queries.states import KEY_STATES, NODE_STATES
from burstcache.queries.watch import StateEntry, key_watcher, node_watcher
from burstcache.queries.watch import watch as follow
from burstcache_cli.explain import max_object_bytes_of
from burstcache_cli.pause_text import below_pause
from burstcache_cli.stack import stack_of
from burstcache_terminal.exit_codes import ExitCode
from burstcache_terminal.text import NOTHING, duration_text, number_text, shown_text, table_text, time_text

_DOUBTS = {
    "": "",
    "no_execution": "no execution of this name (yet)",
    "deadline_passed": "its deadline has passed, the execution has not ended",
}


def keys(args: argparse.Namespace) -> ExitCode:
    """List the keys, and a pause if there is one."""
    stack = stack_of(args)
    system = stack.system()
    views, pause = read_keys(system, max_object_bytes=max_object_bytes_of(stack)), system.pauses.read()
    return _print(views, below_pause(pause, keys_text(views)), as_json=args.json)


def routes(args: argparse.Namespace) -> ExitCode:
    """List the routes, and a pause if there is one."""
    system = stack_of(args).system()
    views, pause = read_routes(system), system.pauses.read()
    return _print(views, below_pause(pause, routes_text(views)), as_json=args.json)


def redis_status(args: argparse.Namespace) -> ExitCode:
    """List the Redis nodes, and a pause if there is one."""
    system = stack_of(args).system()
    views, pause = read_nodes(system), system.pauses.read()
    return _print(views, below_pause(pause, nodes_text(views)), as_json=args.json)


def pool(args: argparse.Namespace) -> ExitCode:
    """Show the pool, and a pause if there is one."""
    stack = stack_of(args)
    settings = json.loads(stack.output("PoolSettings"))
    price = member_price(sheet_of_region(settings["AWS_REGION"]), int(settings["POOL_MEMORY_MB"]))
    system = stack.system()
    view, pause = read_pool(system, price), system.pauses.read()
    print(json.dumps(asdict(view), indent=2) if args.json else below_pause(pause, pool_text(view)))
    return ExitCode.SUCCESS


def watch(args: argparse.Namespace) -> ExitCode:
    """Print each state that a key or a node enters."""
    states = KEY_STATES if args.node is None else NODE_STATES
    if args.until and args.until not in states:
        raise InvalidSettingError(f"--until {args.until!r}: expected one of {', '.join(states)}")
    stack = stack_of(args)
    system = stack.system()
    if args.node is None:
        watcher = key_watcher(system, args.key, max_object_bytes=max_object_bytes_of(stack))
    else:
        watcher = node_watcher(system, stack.node_name(args.node))
    lines = Lines(as_json=args.json)
    try:
        for entered in follow(watcher, system.clock, until=args.until, timeout_s=0 if args.once else args.timeout_s):
            print(lines.line(entered), flush=True)
    except KeyboardInterrupt:  # the normal end without --until
        return ExitCode.INTERRUPTED if args.until else ExitCode.SUCCESS
    return ExitCode.SUCCESS


def keys_text(views: Sequence[KeyView]) -> str:
    """Format keys as a table."""
    if not views:
        return "no keys yet: the scheduler has received no report of requests that S3 served"
    return table_text(("KEY", "STATE", "TIER", "SINCE", "NOTED", "EXECUTION"), [_key_cells(view) for view in views])


def routes_text(views: Sequence[RouteView]) -> str:
    """Format routes as a table."""
    if not views:
        return "no routes: no key has a life of its own"
    return table_text(("KEY", "TIER", "NODE", "BOOTED", "HOLDER", "VALID"), [_route_cells(view) for view in views])


def nodes_text(views: Sequence[NodeView]) -> str:
    """Format nodes as a table."""
    if not views:
        return "no nodes: this stack has no Redis"
    header = ("NODE", "PHASE", "LAST BOOT", "READY SINCE", "LEASES", "HELD UNTIL")
    return table_text(header, [_node_cells(view) for view in views])


def pool_text(view: PoolView) -> str:
    """Format the pool's members, hubs, hits, reclaims, erasure code and bill."""
    if not view.codes:
        return "the pool has not been used yet"
    stored_mb = sum(member.stored_bytes for member in view.members) / 1e6
    silent = [member.member for member in view.members if member.is_silent]
    hits = f"{view.hits / view.requests:.0%} of them found" if view.requests else "none yet"
    hubs = ", ".join(f"{hub.hub} (reported {time_text(hub.reported_at_us)})" for hub in view.hubs)
    last_reclaim = f"; last {time_text(view.reclaimed[-1][0] * 1_000_000)}" if view.reclaimed else ""
    backup = f"backup every {duration_text(view.backup_s)}" if view.backup_s else "no backup"
    former_codes = f" (before: {', '.join(view.codes[1:])})" if view.codes[1:] else ""
    bill = view.bill
    lines = [
        ("kept by", view.execution_name or "nobody: members may be reclaimed"),
        ("invoked", time_text(view.warmed_at_us)),
        ("hubs", hubs or "none reports"),
        ("members", f"{len(view.members)} invoked, {number_text(stored_mb)} MB stored"),
        ("silent", ", ".join(silent)),
        ("slices", f"{view.requests:,} asked for, {hits}; {number_text(view.written_bytes / 1e6)} MB written"),
        (
            "reclaims",
            f"{number_text(view.reclaims_per_min)} a minute in {number_text(view.watched_min)} min{last_reclaim}",
        ),
        ("chunks", f"{view.codes[0]}{former_codes}; invoked every {duration_text(view.warm_s)}, {backup}"),
        *(("", reason) for reason in view.reasons),
        (
            "bill",
            f"{bill.usd:.6f} USD: warm-up {bill.warm_up_usd:.6f}, serving {bill.serving_usd:.6f}, new environments"
            f" {bill.environments_usd:.6f}; hubs and control apart",
        ),
    ]
    return "\n".join(f"{label:10}{text}" for label, text in lines if text)


@dataclass(slots=True)
class Lines:
    """A formatter of state entries as lines, each with the duration of the previous state."""

    as_json: bool
    _before: StateEntry | None = None

    def line(self, entered: StateEntry) -> str:
        """Format a newly entered state as a line."""
        before, self._before = self._before, entered
        lasted_s = (entered.at_us - before.at_us) / 1_000_000 if before and before.at_us and entered.at_us else None
        if self.as_json:
            previous = {"previous_state": before.state if before else None, "in_previous_s": lasted_s}
            return json.dumps(asdict(entered) | previous)
        after = f"after {duration_text(lasted_s)} in {before.state}" if before and lasted_s is not None else ""
        cells = (time_text(entered.at_us, with_ms=True).ljust(24), entered.state.ljust(18), after)
        return "  ".join(filter(None, (*cells, shown_text(entered.failure), _DOUBTS[entered.doubt]))).rstrip()


def _key_cells(view: KeyView) -> tuple[str, ...]:
    remark = " (expired)" if view.is_expired else " (cooling down)" if view.not_before_us else ""
    return (
        view.key,
        f"{view.state}{remark}",
        f"{view.tier} ({view.node})" if view.tier == "redis" else view.tier,
        time_text(view.since_us),
        f"{view.noted_requests}{'+' if view.is_window_full else ''}" if view.tier == "s3" else NOTHING,
        view.execution_name or NOTHING,
    )


def _route_cells(view: RouteView) -> tuple[str, ...]:
    problems = {
        "expired": f"expired at {time_text(view.deadline_at_us)}",
        "node_not_running": f"{view.node} is {view.node_phase}",
        "other_generation": f"{view.node} booted again at {_boot_text(view.node_generation)}",
    }
    return (
        view.key,
        view.tier,
        view.node or NOTHING,
        _boot_text(view.generation),
        view.holder or NOTHING,
        f"no: {problems[view.problem]}" if view.problem else "yes",
    )


def _node_cells(view: NodeView) -> tuple[str, ...]:
    return (
        view.node,
        view.phase,
        _boot_text(view.generation),
        time_text(view.ready_at_us) if view.phase == "running" else NOTHING,
        str(len(view.keys)),
        time_text(view.held_until_us),
    )


def _boot_text(generation: int) -> str:
    """Format a node's generation, which is the time of its boot [ms]."""
    return time_text(generation * 1000)


def _print(views: Sequence[Any], text: str, *, as_json: bool) -> ExitCode:
    print(json.dumps([asdict(view) for view in views], indent=2) if as_json else text)
    return ExitCode.SUCCESS
