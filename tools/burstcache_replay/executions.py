"""Executions of the state machines in a time range: key lives and node runs, from execution histories."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from burstcache.queries.history import Step, steps_of

_US_PER_S = 1_000_000


@dataclass(frozen=True, slots=True)
class NodeRun:
    """One run of a node. Times are since 1970 [us], or 0 if not reached."""

    node: str
    boot_us: int  # boot started
    ready_us: int  # first response from Redis
    stop_us: int  # stop started


@dataclass(frozen=True, slots=True)
class Lives:
    """Totals over all key lives."""

    functions_us: tuple[tuple[str, int], ...] = ()  # per life with a cache function: execution, time of the call [us]
    promotions: int = 0  # keys stored in Redis with a lease
    failures: int = 0


@dataclass(frozen=True, slots=True)
class Executions:
    """The executions of a time range."""

    lives: Lives
    node_runs: tuple[NodeRun, ...]  # by boot time
    transitions: int


def running(states: Any, machine_arns: Sequence[str], *, since_us: int) -> list[str]:
    """Return the names of executions that started at `since_us` or later and are still running."""
    listed = (each for arn in machine_arns for each in _executions(states, arn, since_us))
    return [each["name"] for each in listed if each["status"] == "RUNNING"]


def read_executions(states: Any, *, key_machine_arn: str, node_machine_arn: str, since_us: int) -> Executions:
    """Read the executions that started at `since_us` or later. An empty ARN means that the machine does not exist."""
    lives = [
        (each["name"], _steps(states, each["executionArn"])) for each in _executions(states, key_machine_arn, since_us)
    ]
    parts = [
        (each["name"], _steps(states, each["executionArn"])) for each in _executions(states, node_machine_arn, since_us)
    ]
    transitions = sum(bool(step.state) for _, steps in (*lives, *parts) for step in steps)
    return Executions(lives_of(lives), node_runs_of(parts), transitions)


def lives_of(lives: Sequence[tuple[str, Sequence[Step]]]) -> Lives:
    """Compute the totals of key lives from each life's execution name and states."""
    entered = [(name, {step.state: step.at_us for step in reversed(steps)}) for name, steps in lives]
    return Lives(
        functions_us=tuple((name, states["Lambda"]) for name, states in entered if "Lambda" in states),
        promotions=sum("SeedRedis" in states for _, states in entered),
        failures=sum(bool(step.failure) for _, steps in lives for step in steps),
    )


def node_runs_of(parts: Sequence[tuple[str, Sequence[Step]]]) -> tuple[NodeRun, ...]:
    """Return the node runs. A long run has several executions, named by node, generation and part."""
    runs: dict[str, list[Step]] = {}
    for name, steps in sorted(parts, key=lambda part: int(part[0].rpartition("-")[2])):
        runs.setdefault(name.rpartition("-")[0], []).extend(steps)
    node_runs = (_node_run(name.rpartition("-")[0], steps) for name, steps in runs.items())
    return tuple(sorted(node_runs, key=lambda run: run.boot_us))


def _node_run(node: str, steps: Sequence[Step]) -> NodeRun:
    def first_us(*states: str) -> int:
        return next((step.at_us for step in steps if step.state in states), 0)

    return NodeRun(node, first_us("BootNode"), first_us("RedisNodeRunning"), first_us("StopNode", "AbandonNode"))


def _executions(states: Any, machine_arn: str, since_us: int) -> Iterator[dict[str, Any]]:
    """Yield executions that started at a given time or later, newest first."""
    if not machine_arn:
        return
    since = datetime.fromtimestamp(since_us / _US_PER_S, UTC)
    for page in states.get_paginator("list_executions").paginate(stateMachineArn=machine_arn):
        for each in page["executions"]:
            if each["startDate"] < since:
                return
            yield each


def _steps(states: Any, execution_arn: str) -> list[Step]:
    pages = states.get_paginator("get_execution_history").paginate(
        executionArn=execution_arn, includeExecutionData=False
    )
    return steps_of(event for page in pages for event in page["events"])
