"""State machines on a virtual clock: our interpreter behind boto3's Step Functions client."""

from __future__ import annotations

import asyncio
import json
import re
import time
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from burstcache.adapters.executions import Executions, execution_arn
from burstcache.core.parameters import US_PER_S
from burstcache_local.functions import ACCOUNT
from burstcache_local.stepfunctions.errors import StateError
from burstcache_local.stepfunctions.http import HttpApi
from burstcache_local.stepfunctions.integrations import update_item_of
from burstcache_local.stepfunctions.service import StepFunctions
from support.aws import REGION, TABLE, answer_by, clients, make_stack
from support.project import ROOT
from support.roles import MACHINES, check
from support.virtual_time import VirtualClock

T = TypeVar("T")

_HOLD = json.dumps(
    {
        "QueryLanguage": "JSONata",
        "StartAt": "Hold",
        "States": {
            "Hold": {
                "Type": "Task",
                "Resource": "arn:aws:states:::lambda:invoke.waitForTaskToken",
                "Arguments": {
                    "FunctionName": "hold",
                    "Payload": {
                        "name": "{% $states.context.Execution.Name %}",
                        "token": "{% $states.context.Task.Token %}",
                    },
                },
                "End": True,
            }
        },
    }
)


class Machines(ABC):
    """State machines of keys, nodes and the pool, and one whose only task a test completes."""

    def __init__(self, *, runs: bool) -> None:
        self.clock = VirtualClock(time.time_ns() // 1000)  # instances in moto are started in real time
        self.clients, self.states_client = clients(), clients().states
        self.executions = Executions(self.states_client)
        make_stack()
        self._tokens: defaultdict[str, Future[str]] = defaultdict(Future)
        self._lives: list[Future[Any]] = []
        self._start_step_functions()
        self._make_machines(runs)

    def close(self) -> None:
        """Wait for the running lives to end, then stop everything else."""
        for life in self._lives:
            self.clock.wait_for(life)
        self.clock.wait_for(asyncio.run_coroutine_threadsafe(self._stop_executions(), self._loop))
        self.clock.wait_for_all(but=self._loop_thread)  # a running step would continue in the next test's world
        self._loop.call_soon_threadsafe(self._loop.stop)
        self.clock.wait_for(self._loop_thread)
        self._loop.close()

    @abstractmethod
    def invoke(self, function: str, payload: dict[str, Any]) -> Any:
        """Invoke a function's handler and return its result or propagate its error."""

    def invoke_event(self, function: str, payload: dict[str, Any]) -> None:
        """Invoke a function asynchronously."""
        self.invoke(function, payload)

    async def _stop_executions(self) -> None:
        self.states.close()
        await asyncio.gather(*asyncio.all_tasks() - {asyncio.current_task()}, return_exceptions=True)

    def _start_step_functions(self) -> None:
        self._loop = self.clock.new_event_loop()
        self.states = StepFunctions(
            region=REGION,
            calls={
                "lambda:invoke": self._invoke_from_task,
                "aws-sdk:dynamodb:updateItem": update_item_of(lambda: self.clients.dynamodb),
            },
            now_us=self.clock.now_us,
        )
        answer_by(self.states_client, HttpApi(self.states, self._loop))
        self._loop_thread = self.clock.start(self._loop.run_forever)

    def _make_machines(self, runs: bool) -> None:
        arn = f"arn:aws:states:{REGION}:123456789012:stateMachine"
        self.key_machine, self.node_machine, self.pool_machine = (f"{arn}:{name}" for name in MACHINES.values())
        self.token_machine = f"{arn}:token"
        for role, name in MACHINES.items():
            if runs:
                self.make_machine(name, self.definition(re.sub("(?<=.)(?=[A-Z])", "_", role).lower()), role)
            else:
                self.make_machine(name, _HOLD)
        self.make_machine("token", _HOLD)

    def make_machine(self, name: str, definition: str, role: str = "any") -> None:
        """Create a state machine. `role` is the template's machine whose permissions it gets, if it is one of those."""
        arn = f"arn:aws:iam::{ACCOUNT}:role/{role}"
        self.states_client.create_state_machine(name=name, definition=definition, roleArn=arn)

    def definition(self, machine: str) -> str:
        """Return the definition of one of the project's machines, with its placeholders filled in."""
        text = (ROOT / "statemachines" / f"{machine}.asl.json").read_text()
        substitutions = {
            "CacheFunctionArn": "cache",
            "RedisControlFunctionArn": "redis_control",
            "RedisNodeArn": self.node_machine,
            "PoolControlFunctionArn": "pool_control",
            "TableName": TABLE,
        }
        for placeholder, value in substitutions.items():
            text = text.replace(f"${{{placeholder}}}", value)
        return text

    async def _invoke_from_task(self, arguments: dict[str, Any]) -> dict[str, Any]:
        check("lambda", "Invoke", arguments)
        function, payload = arguments["FunctionName"], arguments["Payload"]
        if function == "hold":
            self._tokens[payload["name"]].set_result(payload["token"])
            return {"StatusCode": 200, "Payload": {}}
        if arguments.get("InvocationType") == "Event":
            self._lives.append(self.clock.start(self.invoke_event, function, payload))
            return {"StatusCode": 202, "Payload": ""}
        try:
            return {"StatusCode": 200, "Payload": await asyncio.to_thread(self.invoke, function, payload)}
        except Exception as error:
            cause = {"errorType": type(error).__name__, "errorMessage": str(error)}
            raise StateError(type(error).__name__, json.dumps(cause)) from error

    def executions_of(self, machine: str, status: Any = "RUNNING") -> list[str]:
        answer = self.states_client.list_executions(stateMachineArn=machine, statusFilter=status)
        return [execution["name"] for execution in answer["executions"]]

    def token(self, name: str) -> str:
        """Return a real task token: that of the named execution of a key or node, or of a new execution."""
        if not any(name in self.executions_of(machine) for machine in (self.key_machine, self.node_machine)):
            self.executions.start(self.token_machine, name, {})
        return self.clock.wait_for(self._tokens[name])

    def outcome(self, name: str) -> dict[str, Any]:
        """Wait until the named execution ends. Return its output or its error."""
        machine = self.key_machine if self._exists(self.key_machine, name) else self.token_machine
        described = self.until(lambda: self._ended(machine, name))
        if described["status"] == "SUCCEEDED":
            return dict(json.loads(described["output"]))
        return {"error": described.get("error")}

    def _exists(self, machine: str, name: str) -> bool:
        return any(name in self.executions_of(machine, status) for status in ("RUNNING", "SUCCEEDED", "FAILED"))

    def _ended(self, machine: str, name: str) -> dict[str, Any]:
        described = self.states_client.describe_execution(executionArn=execution_arn(machine, name))
        return dict(described) if described["status"] != "RUNNING" else {}

    def until(self, ask: Callable[[], T], within_s: float = 3600, every_s: float = 0.1, *, acts: bool = False) -> T:
        """Poll `ask` as the world's time passes, and return its first true answer.

        Polls are skipped while nothing happens, unless the poll itself acts (`acts`).
        """
        give_up_us = self.clock.now_us() + round(within_s * US_PER_S)
        while True:
            is_alone = self.clock.is_alone()  # otherwise others may come to rest between the answer and the next rest
            if answer := ask():
                return answer
            assert self.clock.now_us() < give_up_us, f"it did not happen within {within_s} s of the world's time"
            if acts:
                self.clock.sleep(every_s)
            else:
                self.clock.look_on(every_s, give_up_us, has_missed=not is_alone)
