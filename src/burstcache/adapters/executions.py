"""Executions and task tokens of Step Functions."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ParamSpec

from burstcache.adapters.calls import call_aws, translated_errors
from burstcache.core.errors import ServiceError

if TYPE_CHECKING:
    from types_boto3_stepfunctions.client import SFNClient

_P = ParamSpec("_P")
_PAGE_SIZE = 1000  # Step Functions' maximum. Its default is 100
# The error code depends on when and how the token was closed.
_CLOSED_TOKEN = frozenset({"TaskTimedOut", "TaskDoesNotExist", "InvalidToken"})


@dataclass(frozen=True, slots=True)
class Executions:
    """Executions and their task tokens. Every method raises ServiceError if Step Functions fails.

    An empty token counts as closed, since no task waits for it.
    """

    client: SFNClient

    def start(self, machine_arn: str, name: str, input_: Mapping[str, object]) -> bool:
        """Start an execution. Idempotent while an execution with this name is running.

        Returns:
            False if an execution with this name, and thus its life or part, has ended. Names cannot be reused.
        """
        text = json.dumps(input_, sort_keys=True, separators=(",", ":"))
        return _unless(
            {"ExecutionAlreadyExists"}, self.client.start_execution, stateMachineArn=machine_arn, name=name, input=text
        )

    def is_running(self, machine_arn: str, name: str) -> bool:
        """Return True if the execution with this name is running."""
        try:
            response = call_aws(self.client.describe_execution, executionArn=execution_arn(machine_arn, name))
        except ServiceError as error:
            if error.code == "ExecutionDoesNotExist":
                return False
            raise
        return response["status"] == "RUNNING"

    def running(self, machine_arn: str) -> frozenset[str]:
        """Return the names of the running executions (eventually consistent).

        A page lists 1,000 executions, whereas describing each one would be throttled after several hundred. Executions
        that have just started may be missing, and executions that have just ended may be listed.
        """
        pages = self.client.get_paginator("list_executions").paginate(
            stateMachineArn=machine_arn, statusFilter="RUNNING", PaginationConfig={"PageSize": _PAGE_SIZE}
        )
        with translated_errors():
            return frozenset(execution["name"] for page in pages for execution in page["executions"])

    def stop(self, machine_arn: str, name: str, *, cause: str) -> None:
        """Stop the execution with this name if it is running."""
        _unless(
            {"ExecutionDoesNotExist"},
            self.client.stop_execution,
            executionArn=execution_arn(machine_arn, name),
            error="StoppedByOperatorError",
            cause=cause,
        )

    def succeed(self, token: str, output: Mapping[str, object]) -> bool:
        """Complete a task. Return False if its token is closed."""
        return _unless_closed(token, self.client.send_task_success, output=json.dumps(output))

    def fail(self, token: str, error: Exception) -> bool:
        """Fail a task with an exception's class name and message. Return False if its token is closed."""
        name, cause = type(error).__name__, str(error)[:1000]
        return _unless_closed(token, self.client.send_task_failure, error=name, cause=cause)

    def heartbeat(self, token: str) -> bool:
        """Send a task's heartbeat. Return False if its token is closed."""
        return _unless_closed(token, self.client.send_task_heartbeat)


def execution_arn(machine_arn: str, name: str) -> str:
    """Derive an execution's ARN from its state machine's."""
    return f"{machine_arn.replace(':stateMachine:', ':execution:')}:{name}"


def _unless_closed(token: str, call: Callable[..., object], **arguments: str) -> bool:
    """Make a call for a task. Return False if its token is closed or empty."""
    return bool(token) and _unless(_CLOSED_TOKEN, call, taskToken=token, **arguments)


def _unless(
    codes: frozenset[str] | set[str], call: Callable[_P, object], *args: _P.args, **arguments: _P.kwargs
) -> bool:
    """Make a call. Return False if the service rejects it with one of `codes`."""
    try:
        call_aws(call, *args, **arguments)
    except ServiceError as error:
        if error.code in codes:
            return False
        raise
    return True
