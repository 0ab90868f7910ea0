"""The API: machines and executions by ARN, and the calls that start, stop, complete and describe them."""

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

# Arguments by resource. Whatever a definition uses beyond these is refused at its creation.
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


@dataclass(frozen=True, slots=True)
class _Machine:
    arn: str
    role_arn: str
    text: str
    definition: dict[str, Any]
    created_at: datetime
    executions: dict[str, Execution]  # by name, the oldest first


class StepFunctions:
    """Step Functions of one region; every method belongs to one event loop.

    Args:
        region: The region in the ARNs.
        calls: What `lambda:invoke` and `aws-sdk:dynamodb:updateItem` do; a machine whose resource is missing here
            cannot be made.
        now_us: The wall clock [us]. Waits and time-outs go by the event loop's time.
        on_enter: Called before an execution enters a state; it may stop the execution there.
        on_end: Called when an execution has ended, unless `close` has ended it.
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
        """Return what an action of the API answers; times are datetimes.

        Raises:
            ApiError: The call is refused, as AWS does or because the action is not supported here.
        """
        if action not in self._actions:
            raise ApiError("UnknownOperationException", f"{action} is not supported here")
        return self._actions[action](parameters)

    def close(self) -> None:
        """Stop whatever runs."""
        self._on_end = lambda execution: None
        for machine in self._machines.values():
            for execution in machine.executions.values():
                execution.stop()

    def _create_state_machine(self, asked: Parameters) -> Answer:
        arn = f"arn:aws:states:{self._region}:{ACCOUNT}:stateMachine:{asked['name']}"
        known = self._machines.get(arn)
        if known is not None and known.text != asked["definition"]:
            raise ApiError("StateMachineAlreadyExists", f"State Machine Already Exists: '{arn}'")
        if known is None:
            supported = {resource: INTEGRATIONS[resource] for resource in self._calls}
            definition = parse(asked["definition"], supported)
            known = _Machine(arn, asked.get("roleArn", ""), asked["definition"], definition, self._now(), {})
            self._machines[arn] = known
        return {"stateMachineArn": arn, "creationDate": known.created_at}

    def _describe_state_machine(self, asked: Parameters) -> Answer:
        machine = self._machine(asked["stateMachineArn"])
        return {"stateMachineArn": machine.arn, "definition": machine.text, "creationDate": machine.created_at}

    def _start_execution(self, asked: Parameters) -> Answer:
        machine = self._machine(asked["stateMachineArn"])
        name, given = asked.get("name") or str(uuid.uuid4()), asked.get("input", "{}")
        if not _NAME.fullmatch(name):
            raise ApiError("InvalidName", f"Invalid Name: '{name}'")
        _json(given, "InvalidExecutionInput", "Invalid State Machine Execution Input")
        execution = machine.executions.get(name)
        arn = f"{machine.arn.replace(':stateMachine:', ':execution:')}:{name}"
        if execution is None:
            execution = Execution(
                arn=arn,
                machine_arn=machine.arn,
                role_arn=machine.role_arn,
                definition=machine.definition,
                input=given,
                calls=self._calls,
                tokens=self._tokens,
                now_us=self._now_us,
                on_enter=self.on_enter,
                on_end=lambda ended: self._on_end(ended),
            )
            machine.executions[name] = execution
            if trace := asked.get("traceHeader"):
                TRACE.set(trace)  # for the task of this call, and those that it starts
            execution.start()
        elif execution.status != "RUNNING" or execution.input != given:
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

    def _stop_execution(self, asked: Parameters) -> Answer:
        execution = self._execution(asked)
        execution.stop(asked.get("error", ""), asked.get("cause", ""))
        return {"stopDate": execution.stopped_at}

    def _describe_execution(self, asked: Parameters) -> Answer:
        execution = self._execution(asked)
        optional = {name: getattr(execution, name) for name in ("output", "error", "cause")}
        return {
            **_summary(execution),
            "input": execution.input,
            **{name: value for name, value in optional.items() if value},
        }

    def _list_executions(self, asked: Parameters) -> Answer:
        machine, status = self._machine(asked["stateMachineArn"]), asked.get("statusFilter")
        newest_first = [
            execution for execution in reversed(machine.executions.values()) if status in (None, execution.status)
        ]
        page, token = _page(newest_first, asked)
        return {"executions": [_summary(execution) for execution in page], **token}

    def _get_execution_history(self, asked: Parameters) -> Answer:
        events = self._execution(asked).events
        page, token = _page(events[::-1] if asked.get("reverseOrder") else events, asked)
        return {"events": page, **token}

    def _send_task_success(self, asked: Parameters) -> Answer:
        self._tokens.complete(asked["taskToken"], _json(asked["output"], "InvalidOutput", "Invalid Output"))
        return {}

    def _send_task_failure(self, asked: Parameters) -> Answer:
        self._tokens.complete(asked["taskToken"], StateError(asked.get("error", ""), asked.get("cause", "")))
        return {}

    def _send_task_heartbeat(self, asked: Parameters) -> Answer:
        self._tokens.beat(asked["taskToken"])
        return {}

    def _machine(self, arn: str) -> _Machine:
        if arn not in self._machines:
            raise ApiError("StateMachineDoesNotExist", f"State Machine Does Not Exist: '{arn}'")
        return self._machines[arn]

    def _execution(self, asked: Parameters) -> Execution:
        arn = asked["executionArn"]
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


def _page(items: Sequence[Any], asked: Parameters) -> tuple[Sequence[Any], Answer]:
    """Return a page of `items` and the token of the next page, which is the index of its first item."""
    first = int(asked.get("nextToken") or 0)
    end = first + (asked.get("maxResults") or _PAGE)
    return items[first:end], {"nextToken": str(end)} if end < len(items) else {}


def _json(text: str, code: str, what: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise ApiError(code, f"{what}: '{error}'") from error
