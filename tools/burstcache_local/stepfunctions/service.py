"""The service API, which manages state machines and executions, and completes tasks."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from burstcache_local.functions import ACCOUNT
from burstcache_local.stepfunctions.definition import parse
from burstcache_local.stepfunctions.errors import ApiError, StateError
from burstcache_local.stepfunctions.execution import TRACE, Call, Execution
from burstcache_local.stepfunctions.tokens import Tokens

Parameters = Mapping[str, Any]
Answer = dict[str, Any]

# Resource → supported arguments. Definitions with other arguments are rejected.
_START_EXECUTION = "states:startExecution"
INTEGRATIONS: dict[str, frozenset[str]] = {
    "lambda:invoke": frozenset({"FunctionName", "InvocationType", "Payload"}),
    "aws-sdk:dynamodb:updateItem": frozenset(
        {
            "ConditionExpression",
            "ExpressionAttributeNames",
            "ExpressionAttributeValues",
            "Key",
            "ReturnValues",
            "TableName",
            "UpdateExpression",
        }
    ),
    _START_EXECUTION: frozenset({"Input", "Name", "StateMachineArn"}),
}
_NAME = re.compile(r"[\w.+!@()=-]{1,80}", re.ASCII)
_PAGE = 100
_DATA = ("input", "output")  # of an event


@dataclass(frozen=True, slots=True)
class _Machine:
    arn: str
    role_arn: str
    text: str
    definition: dict[str, Any]
    created_at: datetime
    executions: dict[str, Execution]  # by name, oldest first


class StepFunctions:
    """Step Functions in one region. Not thread-safe: call all methods in one event loop.

    Args:
        region: Region of the ARNs.
        calls: Implementations of `lambda:invoke` and `aws-sdk:dynamodb:updateItem`. A state machine that uses a
            resource without an implementation is rejected.
        now_us: The wall clock [us], for timestamps. Waits and timeouts use the event loop's clock.
        on_enter: Called before an execution enters a state. This callback may stop the execution.
        on_end: Called when an execution ends, except through `close`.
    """

    def __init__(
        self,
        *,
        region: str,
        calls: Mapping[str, Call],
        now_us: Callable[[], int],
        on_enter: Callable[[Execution, str], None] = lambda execution, state: None,
        on_end: Callable[[Execution], None] = lambda execution: None,
    ) -> None:
        self._region, self._now_us = region, now_us
        self.on_enter, self._on_end = on_enter, on_end
        self._calls = {**calls, _START_EXECUTION: self._start_from_task}
        self._machines: dict[str, _Machine] = {}
        self._tokens = Tokens()
        self._actions: dict[str, Callable[[Parameters], Answer]] = {
            "CreateStateMachine": self._create_state_machine,
            "DescribeExecution": self._describe_execution,
            "DescribeStateMachine": self._describe_state_machine,
            "GetExecutionHistory": self._get_execution_history,
            "ListExecutions": self._list_executions,
            "SendTaskFailure": self._send_task_failure,
            "SendTaskHeartbeat": self._send_task_heartbeat,
            "SendTaskSuccess": self._send_task_success,
            "StartExecution": self._start_execution,
            "StopExecution": self._stop_execution,
        }

    def answer(self, action: str, parameters: Parameters) -> Answer:
        """Perform an API action, and return the response with times as datetimes.

        Raises:
            ApiError: The call is rejected as on AWS, or the action is not supported here.
        """
        if action not in self._actions:
            raise ApiError("UnknownOperationException", f"{action} is not supported here")
        return self._actions[action](parameters)

    def close(self) -> None:
        """Stop all running executions."""
        self._on_end = lambda execution: None
        for machine in self._machines.values():
            for execution in machine.executions.values():
                execution.stop()

    def _create_state_machine(self, parameters: Parameters) -> Answer:
        arn = f"arn:aws:states:{self._region}:{ACCOUNT}:stateMachine:{parameters['name']}"
        machine = self._machines.get(arn)
        if machine is not None and machine.text != parameters["definition"]:
            raise ApiError("StateMachineAlreadyExists", f"State Machine Already Exists: '{arn}'")
        if machine is None:
            supported = {resource: INTEGRATIONS[resource] for resource in self._calls}
            definition = parse(parameters["definition"], supported)
            machine = _Machine(
                arn, parameters.get("roleArn", ""), parameters["definition"], definition, self._now(), {}
            )
            self._machines[arn] = machine
        return {"stateMachineArn": arn, "creationDate": machine.created_at}

    def _describe_state_machine(self, parameters: Parameters) -> Answer:
        machine = self._machine(parameters["stateMachineArn"])
        return {"stateMachineArn": machine.arn, "definition": machine.text, "creationDate": machine.created_at}

    def _start_execution(self, parameters: Parameters) -> Answer:
        machine = self._machine(parameters["stateMachineArn"])
        name, input_text = parameters.get("name") or str(uuid.uuid4()), parameters.get("input", "{}")
        if not _NAME.fullmatch(name):
            raise ApiError("InvalidName", f"Invalid Name: '{name}'")
        _json(input_text, "InvalidExecutionInput", "Invalid State Machine Execution Input")
        execution = machine.executions.get(name)
        arn = f"{machine.arn.replace(':stateMachine:', ':execution:')}:{name}"
        if execution is None:
            execution = Execution(
                arn=arn,
                machine_arn=machine.arn,
                role_arn=machine.role_arn,
                definition=machine.definition,
                input=input_text,
                calls=self._calls,
                tokens=self._tokens,
                now_us=self._now_us,
                on_enter=self.on_enter,
                on_end=lambda ended: self._on_end(ended),
            )
            machine.executions[name] = execution
            if trace := parameters.get("traceHeader"):
                TRACE.set(trace)  # inherited by the execution's asyncio tasks
            execution.start()
        elif execution.status != "RUNNING" or execution.input != input_text:
            raise ApiError("ExecutionAlreadyExists", f"Execution Already Exists: '{arn}'")
        return {"executionArn": arn, "startDate": execution.started_at}

    async def _start_from_task(self, arguments: dict[str, Any]) -> Answer:
        try:
            started = self._start_execution(
                {
                    "stateMachineArn": arguments["StateMachineArn"],
                    "name": arguments.get("Name"),
                    "input": json.dumps(arguments.get("Input", {})),
                }
            )
        except ApiError as error:
            raise StateError(f"StepFunctions.{error.code}Exception", str(error)) from error
        at = started["startDate"].isoformat(timespec="milliseconds")
        return {"ExecutionArn": started["executionArn"], "StartDate": at.replace("+00:00", "Z")}

    def _stop_execution(self, parameters: Parameters) -> Answer:
        execution = self._execution(parameters)
        execution.stop(parameters.get("error", ""), parameters.get("cause", ""))
        return {"stopDate": execution.stopped_at}

    def _describe_execution(self, parameters: Parameters) -> Answer:
        execution = self._execution(parameters)
        optional = {name: getattr(execution, name) for name in ("output", "error", "cause")}
        return {
            **_summary(execution),
            "input": execution.input,
            **{name: value for name, value in optional.items() if value},
        }

    def _list_executions(self, parameters: Parameters) -> Answer:
        machine, status = self._machine(parameters["stateMachineArn"]), parameters.get("statusFilter")
        newest_first = [
            execution for execution in reversed(machine.executions.values()) if status in (None, execution.status)
        ]
        page, token = _page(newest_first, parameters)
        return {"executions": [_summary(execution) for execution in page], **token}

    def _get_execution_history(self, parameters: Parameters) -> Answer:
        events = self._execution(parameters).events
        page, token = _page(events[::-1] if parameters.get("reverseOrder") else events, parameters)
        has_data = parameters.get("includeExecutionData", True)
        return {"events": page if has_data else [_without_data(event) for event in page], **token}

    def _send_task_success(self, parameters: Parameters) -> Answer:
        self._tokens.complete(parameters["taskToken"], _json(parameters["output"], "InvalidOutput", "Invalid Output"))
        return {}

    def _send_task_failure(self, parameters: Parameters) -> Answer:
        self._tokens.complete(
            parameters["taskToken"], StateError(parameters.get("error", ""), parameters.get("cause", ""))
        )
        return {}

    def _send_task_heartbeat(self, parameters: Parameters) -> Answer:
        self._tokens.beat(parameters["taskToken"])
        return {}

    def _machine(self, arn: str) -> _Machine:
        if arn not in self._machines:
            raise ApiError("StateMachineDoesNotExist", f"State Machine Does Not Exist: '{arn}'")
        return self._machines[arn]

    def _execution(self, parameters: Parameters) -> Execution:
        arn = parameters["executionArn"]
        machine_arn, _, name = arn.replace(":execution:", ":stateMachine:").rpartition(":")
        machine = self._machines.get(machine_arn)
        if machine is None or name not in machine.executions:
            raise ApiError("ExecutionDoesNotExist", f"Execution Does Not Exist: '{arn}'")
        return machine.executions[name]

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._now_us() / 1e6, UTC)


def _summary(execution: Execution) -> Answer:
    stopped = {"stopDate": execution.stopped_at} if execution.stopped_at else {}
    return {
        "executionArn": execution.arn,
        "stateMachineArn": execution.machine_arn,
        "name": execution.name,
        "status": execution.status,
        "startDate": execution.started_at,
        **stopped,
    }


def _page(items: Sequence[Any], parameters: Parameters) -> tuple[Sequence[Any], Answer]:
    """Return a page of `items`, and the next page's token. A token is the index of the page's first item."""
    first = int(parameters.get("nextToken") or 0)
    end = first + (parameters.get("maxResults") or _PAGE)
    return items[first:end], {"nextToken": str(end)} if end < len(items) else {}


def _without_data(event: Mapping[str, Any]) -> Answer:
    """Return an event of a history without inputs and outputs."""
    return {
        name: {each: value for each, value in part.items() if each not in _DATA} if isinstance(part, dict) else part
        for name, part in event.items()
    }


def _json(text: str, code: str, problem: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise ApiError(code, f"{problem}: '{error}'") from error
