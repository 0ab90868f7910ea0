"""What an execution's history says about the states it entered."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError

from burstcache.adapters.executions import execution_arn
from burstcache_cli.stack import Stack

_ENDS = frozenset({"ExecutionSucceeded", "ExecutionFailed", "ExecutionAborted", "ExecutionTimedOut"})
# A key's whole life is some fifty events; of a node that has run for days the newest ones are enough.
_MAX_FIRST_EVENTS = 500


@dataclass(frozen=True, slots=True)
class Step:
    """One state entered, or the end of the execution."""

    at_us: int
    state: str  # empty: the execution ended
    failure: str = ""  # error and cause, if it ended badly


def steps_of(events: Iterable[Mapping[str, Any]]) -> list[Step]:
    """Return the states entered and the end, in the order of the events' numbers."""
    steps = []
    for event in sorted(events, key=lambda event: event["id"]):
        at_us = round(event["timestamp"].timestamp() * 1000) * 1000
        if event["type"].endswith("StateEntered"):
            steps.append(Step(at_us, event["stateEnteredEventDetails"]["name"]))
        elif event["type"] in _ENDS:
            steps.append(Step(at_us, "", _failure(event)))
    return steps


class History:
    """One execution's history, read piece by piece."""

    def __init__(self, states: Any, execution_arn: str) -> None:
        self._states = states
        self._execution_arn = execution_arn
        self._last_id = 0

    def read_new(self) -> list[Step] | None:
        """Return the steps since the last reading; None if there is no such execution."""
        pages = self._states.get_paginator("get_execution_history").paginate(
            executionArn=self._execution_arn, reverseOrder=True, includeExecutionData=False
        )
        new: list[Mapping[str, Any]] = []
        try:
            for page in pages:
                fresh = [event for event in page["events"] if event["id"] > self._last_id]
                new += fresh
                if len(fresh) < len(page["events"]) or (not self._last_id and len(new) >= _MAX_FIRST_EVENTS):
                    break
        except ClientError as error:
            if error.response["Error"]["Code"] == "ExecutionDoesNotExist":
                return None
            raise
        self._last_id = max((event["id"] for event in new), default=self._last_id)
        return steps_of(new)


def histories(stack: Stack, machine_output: str) -> Callable[[str], History]:
    """Return what opens the history of an execution by its name; the machine is the one that a stack's output names."""
    machine_arn, states = stack.output(machine_output), stack.client("stepfunctions")
    return lambda name: History(states, execution_arn(machine_arn, name))


def _failure(event: Mapping[str, Any]) -> str:
    if event["type"] == "ExecutionSucceeded":
        return ""
    kind = event["type"]
    details = event.get(f"{kind[0].lower()}{kind[1:]}EventDetails", {})
    return ": ".join(filter(None, [details.get("error", kind), details.get("cause", "")]))
