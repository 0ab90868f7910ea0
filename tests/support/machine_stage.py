"""A stage for state machines alone, to test the interpreter: one scripted function, a virtual clock, one thread."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any

from burstcache_local.stepfunctions.errors import StateError
from burstcache_local.stepfunctions.execution import Call
from burstcache_local.stepfunctions.service import StepFunctions
from support.virtual_time import VirtualClock, VirtualLoop

_ROLE = "arn:aws:iam::123456789012:role/machine"
INVOKE = "arn:aws:states:::lambda:invoke"
TOKEN = ".waitForTaskToken"
CAUGHT = {"Caught": {"Type": "Succeed"}}

States = dict[str, dict[str, Any]]
Function = Callable[[Any], Any]


class MachineStage:
    """Step Functions on its own virtual clock, with one function that a test scripts."""

    def __init__(self, calls: Mapping[str, Call] | None = None) -> None:
        self.clock = VirtualClock()
        self.loop = VirtualLoop(self.clock)
        self.function: Function = lambda payload: {}
        self.payloads: list[Any] = []
        self.states = StepFunctions(
            region="eu-central-1",
            calls=calls or {"lambda:invoke": self._invoke},
            now_us=self.clock.now_us,
        )

    async def _invoke(self, arguments: dict[str, Any]) -> Any:
        self.payloads.append(arguments.get("Payload"))
        answer = self.function(arguments.get("Payload"))
        return {"Payload": await answer if isinstance(answer, Awaitable) else answer, "StatusCode": 200}

    def do(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self.loop.run_until_complete(work)

    def create(self, states: States) -> str:
        definition = {"QueryLanguage": "JSONata", "StartAt": next(iter(states)), "States": states}
        request = {"name": str(uuid.uuid4()), "definition": json.dumps(definition), "roleArn": _ROLE}
        return str(self.states.answer("CreateStateMachine", request)["stateMachineArn"])

    def start(self, machine: str, input_: object = None, name: str = "") -> str:
        request = {"stateMachineArn": machine, "name": name, "input": json.dumps({} if input_ is None else input_)}
        return str(self.states.answer("StartExecution", request)["executionArn"])

    async def ended(self, execution: str) -> dict[str, Any]:
        """Wait until an execution ends and return its description."""
        name = execution.rpartition(":")[2]
        await asyncio.gather(*(task for task in asyncio.all_tasks() if task.get_name() == name), return_exceptions=True)
        return self.states.answer("DescribeExecution", {"executionArn": execution})

    def run(self, states: States, input_: object = None) -> dict[str, Any]:
        """Run an execution to its end and return its description."""

        async def work() -> dict[str, Any]:
            return await self.ended(self.start(self.create(states), input_))

        return dict(self.do(work()))

    def output(self, states: States, input_: object = None) -> Any:
        description = self.run(states, input_)
        assert description["status"] == "SUCCEEDED", description
        return json.loads(description["output"])

    def events(self, execution: str, **parameters: Any) -> list[dict[str, Any]]:
        return list(self.states.answer("GetExecutionHistory", {"executionArn": execution, **parameters})["events"])

    def seconds(self, states: States, input_: object = None) -> float:
        """Run an execution and return its duration [s]."""
        description = self.run(states, input_)
        return float((description["stopDate"] - description["startDate"]).total_seconds())

    def close(self) -> None:
        self.states.close()
        self.do(asyncio.sleep(0))
        self.loop.close()


def task(resource: str = INVOKE, **more: Any) -> dict[str, Any]:
    arguments = {
        "FunctionName": "f",
        "Payload": {"token": "{% $states.context.Task.Token %}"} if TOKEN in resource else {},
    }
    return {"Type": "Task", "Resource": resource, "Arguments": arguments, "End": True, **more}


def catch(error: str) -> dict[str, Any]:
    return {"Catch": [{"ErrorEquals": [error], "Next": "Caught"}]}


def retry(error: str, **more: Any) -> dict[str, Any]:
    return {"Retry": [{"ErrorEquals": [error], **more}]}


def raise_(name: str, cause: str = "") -> Any:
    raise StateError(name, cause)


def failing(*errors: str) -> Function:
    """Return a function that raises each of these errors in turn and then succeeds."""
    left = iter(errors)
    return lambda payload: raise_(error) if (error := next(left, "")) else {}
