"""The rows of keys as a person reads them: where each key is in its life, and which routes the proxy follows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from burstcache.adapters.clock import SystemClock
from burstcache.adapters.items import to_plain, to_values
from burstcache.adapters.key_table import KeyTable
from burstcache.adapters.node_table import NodeTable
from burstcache.core.parameters import QUEUE_LENGTH
from burstcache.core.table import KeyPhase, KeyRow, NodeRow
from burstcache_cli.history import Step, histories
from burstcache_cli.stack import Stack
from burstcache_terminal.text import NOTHING, table_text, time_text

# A key's phases under the names that the Step Functions console shows.
STATE_OF_PHASE: dict[KeyPhase, str] = {
    "s3": "S3",
    "lambda": "Lambda",
    "restricted_lambda": "RestrictedLambda",
    "redis_bootup": "RedisBootup",
    "redis_running": "RedisRunning",
    "redis_shutdown": "RedisShutdown",
}


@dataclass(frozen=True, slots=True)
class KeyView:
    """One key: its state, and how it came there."""

    key: str
    state: str
    is_expired: bool  # the state's deadline has passed: whoever reads the row takes the key as one of S3
    tier: str
    since_us: int  # when it entered the state; 0: it has never been anywhere but on S3
    requests: int  # remembered in the key's row, the newest ones
    is_window_full: bool  # older requests may have been forgotten
    execution_name: str  # of the current or last life; empty: none yet
    failures: int  # failed lives in a row
    not_before_us: int  # after a failed life: no new one before this; 0: at any time

    def cells(self) -> tuple[str, ...]:
        """Return the cells of the key's line."""
        remark = " (expired)" if self.is_expired else " (cooling down)" if self.not_before_us else ""
        return (
            self.key,
            f"{self.state}{remark}",
            self.tier,
            time_text(self.since_us),
            f"{self.requests}{'+' if self.is_window_full else ''}",
            self.execution_name or NOTHING,
        )


@dataclass(frozen=True, slots=True)
class RouteView:
    """One key that is not on S3: where the proxy asks, and whether it does."""

    key: str
    tier: str
    node: str
    generation: int
    holder: str
    is_valid: bool
    reason: str  # why the route is not followed; empty: it is

    def cells(self) -> tuple[str, ...]:
        """Return the cells of the route's line."""
        return (
            self.key,
            self.tier,
            self.node or NOTHING,
            str(self.generation) if self.generation else NOTHING,
            self.holder or NOTHING,
            "yes" if self.is_valid else f"no: {self.reason}",
        )


def key_view(row: KeyRow, now_us: int, steps: Sequence[Step] = ()) -> KeyView:
    """Return what a row says at an instant.

    Args:
        row: The key's row.
        now_us: The instant [us].
        steps: What the execution of a live key has entered: the row itself knows only when the life began.
    """
    is_expired = row.phase != "s3" and not row.is_live(now_us)
    return KeyView(
        key=row.key,
        state=STATE_OF_PHASE[row.phase],
        is_expired=is_expired,
        tier=(row.tier or "s3") if row.is_live(now_us) else "s3",
        since_us=_entered_us(STATE_OF_PHASE[row.phase], steps) or row.changed_at_us,
        requests=len(row.window),
        # No window is kept shorter than the queue of five, so fewer requests than that are all there were.
        is_window_full=len(row.window) >= QUEUE_LENGTH,
        execution_name=row.execution_name if row.epoch else "",
        failures=row.failures,
        not_before_us=row.not_before_us if row.not_before_us > now_us else 0,
    )


def route_view(row: KeyRow, node: NodeRow | None, now_us: int) -> RouteView:
    """Return whether a route is followed: a Redis route holds only while its node runs in the same generation."""
    reason = ""
    if not row.is_live(now_us):
        reason = f"expired at {time_text(row.deadline_at_us)}"
    elif row.tier == "redis" and node is not None:
        if node.phase != "running":
            reason = f"{node.node} is {node.phase}"
        elif node.generation != row.generation:
            reason = f"{node.node} runs generation {node.generation}"
    return RouteView(
        key=row.key,
        tier=row.tier,
        node=row.node,
        generation=row.generation,
        holder=row.holder,
        is_valid=not reason,
        reason=reason,
    )


def key_views(stack: Stack, now_us: int) -> list[KeyView]:
    """Return all keys that the table knows, by name."""
    open_history = histories(stack, "KeyLifecycleArn")

    def view(row: KeyRow) -> KeyView:
        steps = open_history(row.execution_name).read_new() if row.is_live(now_us) else None
        return key_view(row, now_us, steps or ())

    return sorted(map(view, _scan(stack)), key=lambda view: view.key)


def route_views(stack: Stack, now_us: int) -> list[RouteView]:
    """Return the routes to Lambda and Redis, by key."""
    table_name, dynamodb = stack.output("TableName"), stack.client("dynamodb")
    rows = [row for row in KeyTable(table_name, dynamodb, SystemClock()).scan_live() if row.tier]
    nodes = {name: NodeTable(table_name, dynamodb).read(name) for name in {row.node for row in rows if row.node}}
    return sorted((route_view(row, nodes.get(row.node), now_us) for row in rows), key=lambda view: view.key)


def keys_text(views: list[KeyView]) -> str:
    """Return one line per key under a header."""
    if not views:
        return "no key has been requested yet"
    return table_text(("KEY", "STATE", "TIER", "SINCE", "REQUESTS", "EXECUTION"), [view.cells() for view in views])


def routes_text(views: list[RouteView]) -> str:
    """Return one line per route under a header."""
    if not views:
        return "no routes: S3 serves every key"
    return table_text(("KEY", "TIER", "NODE", "GENERATION", "HOLDER", "VALID"), [view.cells() for view in views])


def _entered_us(state: str, steps: Sequence[Step]) -> int:
    """Return when a state was entered last; 0: not yet, since a row may be a step ahead of its execution."""
    return next((step.at_us for step in reversed(steps) if step.state == state), 0)


def _scan(stack: Stack) -> Iterator[KeyRow]:
    pages = stack.client("dynamodb").get_paginator("scan")
    for page in pages.paginate(
        TableName=stack.output("TableName"),
        FilterExpression="sk = :route",
        ExpressionAttributeValues=to_values({":route": "ROUTE"}),
        ConsistentRead=True,
    ):
        for item in page["Items"]:
            yield KeyRow.from_item(to_plain(item))
