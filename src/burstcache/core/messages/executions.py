"""The inputs of executions. Each input is derived from a row alone, which makes starts idempotent."""

from __future__ import annotations

from typing import TypedDict

from burstcache.core.phases import Entry
from burstcache.core.rows import KeyRow, NodeRow


class KeyExecutionInput(TypedDict):
    """The input of an execution that runs a key's life."""

    entry: Entry
    epoch: int
    failures: int
    key: str
    key_hash: str
    name: str  # the execution's own name; an execution with another name was started by hand with a copy of this input
    node: str


class NodeExecutionInput(TypedDict):
    """The input of an execution that runs one part of a node's run."""

    generation: int
    node: str
    part: int


class PoolExecutionInput(TypedDict):
    """The input of an execution that runs one part of the pool's keep-alive."""

    generation: int
    part: int


def key_execution_input(row: KeyRow) -> KeyExecutionInput:
    """Return the input of a key's execution."""
    return KeyExecutionInput(
        entry=row.entry,
        epoch=row.epoch,
        failures=row.failures,
        key=row.key,
        key_hash=row.hash,
        name=row.execution_name,
        node=row.node,
    )


def node_execution_input(row: NodeRow) -> NodeExecutionInput:
    """Return the input of one part of a node's execution."""
    return NodeExecutionInput(generation=row.generation, node=row.node, part=row.part)
