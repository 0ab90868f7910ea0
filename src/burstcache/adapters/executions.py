"""Executions and task tokens of Step Functions."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ParamSpec

from burstcache.adapters.calls import ask, failures_named
from burstcache.core.errors import ServiceError

if TYPE_CHECKING:
    from types_boto3_stepfunctions.client import SFNClient

_P = ParamSpec("_P")
_LISTED_AT_ONCE = 1000  # the most that Step Functions gives; unasked, it gives a hundred
# A closed token has three names, depending on how long ago and in which way it was closed.
_CLOSED_TOKEN = frozenset({"TaskTimedOut", "TaskDoesNotExist", "InvalidToken"})


@dataclass(frozen=True, slots=True)
class Executions:
    """Starts executions, completes their tokens. Every method raises ServiceError if Step Functions fails.

    An empty token counts as closed: no task waits.
    """

    client: SFNClient

    def start(self, machine_arn: str, name: str, input_: Mapping[str, object]) -> bool:
        """Start the execution of that name, or find it alive.

        Returns:
            False if an execution of that name is over: then that life or part is dead, and the name is spent.
        """
        text = json.dumps(input_, sort_keys=True, separators=(",", ":"))
        return _unless(
            {"ExecutionAlreadyExists"}, self.client.start_execution, stateMachineArn=machine_arn, name=name, input=text
        )

    def is_running(self, machine_arn: str, name: str) -> bool:
        """Whether the execution of that name is alive."""
        try:
            answer = ask(self.client.describe_execution, executionArn=execution_arn(machine_arn, name))
        except ServiceError as error:
            if error.code == "ExecutionDoesNotExist":
                return False
            raise
        return answer["status"] == "RUNNING"

    def running(self, machine_arn: str) -> frozenset[str]:
        """Return the names of the executions that were alive a moment ago.

        A page has a thousand of them, where to describe each one is throttled after some hundreds. One that has just
        begun may be missing, and one that has just ended be among them.
        """
        pages = self.client.get_paginator("list_executions").paginate(
            stateMachineArn=machine_arn, statusFilter="RUNNING", PaginationConfig={"PageSize": _LISTED_AT_ONCE}
        )
        with failures_named():
            return frozenset(execution["name"] for page in pages for execution in page["executions"])

    def stop(self, machine_arn: str, name: str, *, cause: str) -> None:
        """Stop the execution of that name if it is alive."""
        _unless(
            {"ExecutionDoesNotExist"},
            self.client.stop_execution,
            executionArn=execution_arn(machine_arn, name),
            error="StoppedByOperatorError",
            cause=cause,
        )

    def succeed(self, token: str, output: Mapping[str, object]) -> bool:
        """Complete a task; False if its token is closed."""
        return _unless_closed(token, self.client.send_task_success, output=json.dumps(output))

    def fail(self, token: str, error: Exception) -> bool:
        """Fail a task with the class name and the text of an exception; False if its token is closed."""
        name, cause = type(error).__name__, str(error)[:1000]
        return _unless_closed(token, self.client.send_task_failure, error=name, cause=cause)

    def heartbeat(self, token: str) -> bool:
        """Report progress; False if the token is closed."""
        return _unless_closed(token, self.client.send_task_heartbeat)


def execution_arn(machine_arn: str, name: str) -> str:
    """Return the ARN of an execution: the machine's with another kind and the name behind it."""
    return f"{machine_arn.replace(':stateMachine:', ':execution:')}:{name}"


def _unless_closed(token: str, call: Callable[..., object], **arguments: str) -> bool:
    """Whether a call about a task succeeded; False if its token is closed, or empty."""
    return bool(token) and _unless(_CLOSED_TOKEN, call, taskToken=token, **arguments)


def _unless(
    codes: frozenset[str] | set[str], call: Callable[_P, object], *args: _P.args, **arguments: _P.kwargs
) -> bool:
    """Whether a call succeeded; False if the service refused it with one of `codes`."""
    try:
        ask(call, *args, **arguments)
    except ServiceError as error:
        if error.code in codes:
            return False
        raise
    return True
