"""Inputs of executions. They are functions of a row, so that a repeated start is identical."""

from __future__ import annotations

from typing import TypedDict

from burstcache.core.phases import Entry
from burstcache.core.rows import KeyRow, NodeRow


class KeyExecutionInput(TypedDict):
    """Which life of which key."""

    entry: Entry
    epoch: int
    failures: int
    key: str
    key_hash: str
    name: str  # the execution's own: one that has another was started by hand, with the input of this one
    node: str


class NodeExecutionInput(TypedDict):
    """Which part of which run of a node."""

    generation: int
    node: str
    part: int


class PoolExecutionInput(TypedDict):
    """Which part of which time that the pool is kept alive."""

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
