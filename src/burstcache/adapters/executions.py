"""Executions and task tokens of Step Functions."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from botocore.exceptions import ClientError

from burstcache.adapters.clients import client
from burstcache.core.table import KeyRow, NodeRow

# A closed token has three names, depending on how long ago and in which way it was closed.
_CLOSED_TOKEN = frozenset({"TaskTimedOut", "TaskDoesNotExist", "InvalidToken"})


def key_execution_input(row: KeyRow) -> dict[str, Any]:
    """Return the input of a key's execution: a function of what was written at the start, so a repeat is identical."""
    return {
        "entry": row.entry,
        "epoch": row.epoch,
        "failures": row.failures,
        "key": row.key,
        "key_hash": row.hash,
    }


def node_execution_input(row: NodeRow) -> dict[str, Any]:
    """Return the input of one part of a node's execution."""
    return {"generation": row.generation, "node": row.node, "part": row.part}


@dataclass(frozen=True, slots=True)
class Executions:
    """Starts executions, completes their tokens."""

    _states: Any = field(default_factory=lambda: client("stepfunctions"))

    def start(self, machine_arn: str, name: str, input_: Mapping[str, Any]) -> bool:
        """Start the execution of that name, or find it alive.

        Returns:
            False if an execution of that name is over: then that life or part is dead, and the name is spent.
        """
        try:
            self._states.start_execution(
                stateMachineArn=machine_arn, name=name, input=json.dumps(input_, sort_keys=True, separators=(",", ":"))
            )
        except ClientError as error:
            if error.response["Error"]["Code"] == "ExecutionAlreadyExists":
                return False
            raise
        return True

    def is_running(self, machine_arn: str, name: str) -> bool:
        """Tell whether the execution of that name is alive."""
        try:
            answer = self._states.describe_execution(executionArn=execution_arn(machine_arn, name))
        except ClientError as error:
            if error.response["Error"]["Code"] == "ExecutionDoesNotExist":
                return False
            raise
        return bool(answer["status"] == "RUNNING")

    def stop(self, machine_arn: str, name: str, *, cause: str) -> None:
        """Stop the execution of that name if it is alive."""
        try:
            self._states.stop_execution(
                executionArn=execution_arn(machine_arn, name), error="StoppedByOperatorError", cause=cause
            )
        except ClientError as error:
            if error.response["Error"]["Code"] != "ExecutionDoesNotExist":
                raise

    def succeed(self, token: str, output: Mapping[str, Any]) -> bool:
        """Complete a task; False if its token is closed."""
        return self._tell(self._states.send_task_success, taskToken=token, output=json.dumps(output))

    def fail(self, token: str, error: Exception) -> bool:
        """Fail a task with the class name and the text of an exception; False if its token is closed."""
        name, cause = type(error).__name__, str(error)[:1000]
        return self._tell(self._states.send_task_failure, taskToken=token, error=name, cause=cause)

    def heartbeat(self, token: str) -> bool:
        """Report progress; False if the token is closed."""
        return self._tell(self._states.send_task_heartbeat, taskToken=token)

    def _tell(self, call: Any, **arguments: Any) -> bool:
        try:
            call(**arguments)
        except ClientError as error:
            if error.response["Error"]["Code"] in _CLOSED_TOKEN:
                return False
            raise
        return True


def execution_arn(machine_arn: str, name: str) -> str:
    """Return the ARN of an execution: the machine's with another kind and the name behind it."""
    return f"{machine_arn.replace(':stateMachine:', ':execution:')}:{name}"
