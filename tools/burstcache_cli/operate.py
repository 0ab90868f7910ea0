"""The thesis's development API: switch a Redis node and a key's cache function by hand, and see what they answer."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from burstcache.adapters.node_table import NodeTable
from burstcache.core.errors import BurstcacheError
from burstcache.core.table import Lease, NodeRow
from burstcache.settings import parse_nodes
from burstcache_cli.stack import Stack
from burstcache_terminal.text import NOTHING, table_text, time_text


class OperationFailedError(BurstcacheError):
    """A function of the stack ended with an error."""


@dataclass(frozen=True, slots=True)
class Report:
    """What an operation came to."""

    text: str  # one line for people
    answer: Mapping[str, Any]  # what the function said
    is_well: bool = True


# What the scheduler says to a start by hand: the line, and whether the key is hot now.
_START_OUTCOMES = {
    "started": ("{key} starts: follow it with `burstcache watch`", True),
    "already_hot": ("{key} is hot already: see `burstcache routes`", True),
    "lost": ("{key} has just been started by its requests", True),
    "full": ("{key} stays with S3: as many keys are hot as MaxHotKeys allows", False),
    "too_large": ("{key} stays with S3: the object is larger than a cache function may hold", False),
}


def start_redis(stack: Stack, node: str, for_s: int) -> Report:
    """Keep a node running for `for_s` seconds from now, without a key."""
    answer = _redis_control(stack, op="hold", node=node, for_s=for_s)
    return Report(f"{node} is {answer['phase']}, held until {time_text(answer['held_until_us'])}", answer)


def stop_redis(stack: Stack, node: str) -> Report:
    """Stop a node; its keys return to S3."""
    answer = _redis_control(stack, op="release", node=node)
    return Report(f"{node} is {answer['phase']}", answer)


def ping_redis(stack: Stack, node: str) -> Report:
    """Ask a node's Redis for a PONG, from inside the stack's network."""
    answer = _redis_control(stack, op="ping", node=node)
    said = "PONG" if answer["pong"] else f"no PONG ({answer.get('reason', '')})"
    text = f"{node}: {said}; the node is {answer['phase']}, its instance {answer['instance']}"
    return Report(text, answer, is_well=bool(answer["pong"]))


def start_lambda(stack: Stack, key: str) -> Report:
    """Start a key's life whatever its requests."""
    event = {
        "version": "0",
        "id": str(uuid.uuid4()),
        "source": "burstcache.cli",
        "detail-type": "KeyStartRequested",
        "resources": [],
        "detail": {"key": key},
    }
    answer = _invoke(stack, "SchedulerFunctionName", event)
    text, is_well = _START_OUTCOMES.get(answer["outcome"], (f"{{key}}: {answer['outcome']}", False))
    return Report(text.format(key=key), answer, is_well)


def stop_lambda(stack: Stack, key: str) -> Report:
    """Tell the cache function that holds a key to drain and end."""
    answer = _redis_control(stack, op="stop_cache", key=key)
    text = f"the cache function of {key} ends" if answer["stopped"] else f"no cache function holds {key}"
    return Report(text, answer)


@dataclass(frozen=True, slots=True)
class NodeView:
    """One Redis node: its state and who keeps it running."""

    node: str
    phase: str
    generation: int
    ready_at_us: int
    keys: tuple[str, ...]
    held_until_us: int  # by hand; 0: it is not

    def cells(self) -> tuple[str, ...]:
        """Return the cells of the node's line."""
        return (
            self.node,
            self.phase,
            str(self.generation or NOTHING),
            time_text(self.ready_at_us) if self.phase == "running" else NOTHING,
            str(len(self.keys)),
            time_text(self.held_until_us),
        )


def node_view(row: NodeRow, leases: list[Lease], now_us: int) -> NodeView:
    """Return what a node's row and leases say at an instant."""
    held_until_us = max((lease.held_until_us for lease in leases), default=0)
    return NodeView(
        node=row.node,
        phase=row.phase_at(now_us),
        generation=row.generation,
        ready_at_us=row.ready_at_us,
        keys=tuple(sorted(lease.key for lease in leases if lease.key)),
        held_until_us=held_until_us if held_until_us > now_us else 0,
    )


def node_views(stack: Stack, now_us: int) -> list[NodeView]:
    """Return all Redis nodes of the stack."""
    table = NodeTable(stack.output("TableName"), stack.client("dynamodb"))
    names = [node.name for node in parse_nodes(stack.output("RedisNodes"))]
    return [node_view(table.read(name), table.leases(name), now_us) for name in names]


def nodes_text(views: list[NodeView]) -> str:
    """Return one line per node under a header."""
    header = ("NODE", "PHASE", "GENERATION", "READY SINCE", "KEYS", "HELD UNTIL")
    return table_text(header, [view.cells() for view in views])


def _redis_control(stack: Stack, **payload: Any) -> dict[str, Any]:
    return _invoke(stack, "RedisControlFunctionName", payload)


def _invoke(stack: Stack, output: str, payload: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the function answers, or raise OperationFailedError with its error's name and text."""
    name = stack.output(output)
    answer = stack.client("lambda").invoke(FunctionName=name, Payload=json.dumps(payload).encode())
    said = json.loads(answer["Payload"].read())
    if "FunctionError" in answer:
        raise OperationFailedError(f"{name}: {said.get('errorType', 'error')}: {said.get('errorMessage', said)}")
    return dict(said)
