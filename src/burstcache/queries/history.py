"""The history of a Step Functions execution: the states that it has entered."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from burstcache.adapters.calls import translated_errors
from burstcache.adapters.executions import execution_arn
from burstcache.core.errors import ServiceError

if TYPE_CHECKING:
    from types_boto3_stepfunctions.client import SFNClient

_ENDS = frozenset({"ExecutionSucceeded", "ExecutionFailed", "ExecutionAborted", "ExecutionTimedOut"})
# A key's whole life has about fifty events. For a node that has run for days, the newest events are enough.
_MAX_FIRST_EVENTS = 500


@dataclass(frozen=True, slots=True)
class Step:
    """The entry into a state, or the end of the execution."""

    at_us: int
    state: str  # empty if the execution ended
    failure: str = ""  # error and cause, if the execution failed
    output: str = ""  # JSON of an execution that succeeded, if its history is read with data


@dataclass(slots=True)
class History:
    """The history of one execution, read incrementally."""

    states: SFNClient
    execution_arn: str
    with_data: bool = False
    _last_id: int = field(default=0, init=False)

    @classmethod
    def of(cls, states: SFNClient, machine_arn: str, execution_name: str, *, with_data: bool = False) -> Self:
        """Return the history of a machine's execution, without reading it yet."""
        return cls(states, execution_arn(machine_arn, execution_name), with_data)

    def read_new(self) -> list[Step] | None:
        """Return the steps since the last read, or None if there is no such execution.

        Raises:
            ServiceError: Step Functions fails.
        """
        try:
            new = self._new_events()
        except ServiceError as error:
            if error.code == "ExecutionDoesNotExist":
                return None
            raise
        self._last_id = max((event["id"] for event in new), default=self._last_id)
        return steps_of(new)

    def _new_events(self) -> list[Mapping[str, Any]]:
        pages = self.states.get_paginator("get_execution_history").paginate(
            executionArn=self.execution_arn, reverseOrder=True, includeExecutionData=self.with_data
        )
        new: list[Mapping[str, Any]] = []
        with translated_errors():
            for page in pages:
                fresh = [event for event in page["events"] if event["id"] > self._last_id]
                new += fresh
                if len(fresh) < len(page["events"]) or (not self._last_id and len(new) >= _MAX_FIRST_EVENTS):
                    break
        return new


def steps_of(events: Iterable[Mapping[str, Any]]) -> list[Step]:
    """Return the entered states and the end, in the order of event IDs."""
    steps = []
    for event in sorted(events, key=lambda event: event["id"]):
        at_us = round(event["timestamp"].timestamp() * 1000) * 1000
        if event["type"].endswith("StateEntered"):
            steps.append(Step(at_us, event["stateEnteredEventDetails"]["name"]))
        elif event["type"] in _ENDS:
            output = event.get("executionSucceededEventDetails", {}).get("output", "")
            steps.append(Step(at_us, "", _failure(event), output))
    return steps


def _failure(event: Mapping[str, Any]) -> str:
    kind = event["type"]
    if kind == "ExecutionSucceeded":
        return ""
    details = event.get(f"{kind[0].lower()}{kind[1:]}EventDetails", {})
    return ": ".join(filter(None, [details.get("error", kind), details.get("cause", "")]))
