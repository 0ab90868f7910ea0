"""Repairs to how moto starts and stops executions and completes task tokens."""

from __future__ import annotations

import json
import threading
import time
import uuid
from datetime import UTC, datetime
from typing import Any

from burstcache_local.moto.registry import repair

_START_WAIT_S = 5.0


class _Tokens:
    """All task tokens of this process and the endpoints that wait for them; a closed one has none."""

    def __init__(self) -> None:
        self._endpoints: dict[str, Any] = {}
        self._lock = threading.Lock()

    def open(self, endpoint: Any) -> None:
        with self._lock:
            self._endpoints[endpoint.callback_id] = endpoint

    def is_closed(self, token: str) -> bool:
        with self._lock:
            return self._endpoints.get(token) is None

    def endpoint(self, token: str) -> Any:
        """Return the endpoint of an open token, or raise as AWS answers."""
        with self._lock:
            if token not in self._endpoints:
                raise _refusal("InvalidToken", "Invalid Token: 'Invalid token'")
            if self._endpoints[token] is None:
                raise _refusal("TaskTimedOut", "Task Timed Out: 'Provided task does not exist anymore'")
            return self._endpoints[token]

    def take(self, token: str) -> Any:
        """Close an open token and return its endpoint, or raise as AWS answers."""
        endpoint = self.endpoint(token)
        if not self.close(token):  # another caller was quicker
            return self.endpoint(token)
        return endpoint

    def close(self, token: str) -> Any:
        """Close a token; return its endpoint if it was open."""
        with self._lock:
            endpoint, self._endpoints[token] = self._endpoints.get(token), None
            return endpoint


def _refusal(code: str, message: str) -> Exception:
    """Return the error as moto answers it; the interpreter's own ones have no code."""
    from moto.core.exceptions import AWSError

    kind = type(code, (AWSError,), {"TYPE": code, "STATUS": 400})
    return kind(message)  # type: ignore[no-any-return]


_tokens = _Tokens()


@repair
def tokens_close() -> None:
    """moto takes a second completion of a token while the execution runs, and calls a closed token invalid after it.

    AWS answers TaskTimedOut for a token that was completed, ran out of time or lost its execution, InvalidToken for
    what was never one, takes a heartbeat of a task that asks for none, and gives every attempt a token of its own.
    """
    from moto.stepfunctions.parser.asl.component.state.exec.execute_state import ExecutionState
    from moto.stepfunctions.parser.asl.eval.callback.callback import (
        CallbackOutcomeFailure,
        CallbackOutcomeSuccess,
        CallbackPoolManager,
    )
    from moto.stepfunctions.parser.models import StepFunctionsParserBackend

    add, evaluate = CallbackPoolManager.add, ExecutionState._evaluate_with_timeout

    def add_token(self: Any, callback_id: str) -> Any:
        endpoint = add(self, callback_id)
        _tokens.open(endpoint)
        return endpoint

    def evaluate_and_close(self: Any, env: Any) -> None:
        context = env.states.context_object
        task = context.context_object_data.get("Task")
        if task and _tokens.is_closed(task["Token"]):
            env.callback_pool_manager.add(context.update_task_token())
        try:
            evaluate(self, env)
        finally:
            if task and (endpoint := _tokens.close(context.context_object_data["Task"]["Token"])):
                endpoint.interrupt_all()

    def success(self: Any, task_token: str, outcome: str) -> None:
        _tokens.take(task_token).notify(CallbackOutcomeSuccess(callback_id=task_token, output=outcome))

    def failure(self: Any, task_token: str, error: str | None = None, cause: str | None = None) -> None:
        _tokens.take(task_token).notify(CallbackOutcomeFailure(callback_id=task_token, error=error, cause=cause))

    def heartbeat(self: Any, task_token: str) -> None:
        _tokens.endpoint(task_token).notify_heartbeat()

    CallbackPoolManager.add = add_token
    ExecutionState._evaluate_with_timeout = evaluate_and_close
    StepFunctionsParserBackend.send_task_success = success
    StepFunctionsParserBackend.send_task_failure = failure
    StepFunctionsParserBackend.send_task_heartbeat = heartbeat


@repair
def text_outputs_are_json() -> None:
    """moto describes the output of an execution as it is if it is a text: AWS gives JSON, which has quotes then."""
    from moto.stepfunctions.parser.backend.execution import BaseExecutionWorkerCommunication

    reflect = BaseExecutionWorkerCommunication._reflect_execution_status

    def reflect_as_json(self: Any) -> None:
        reflect(self)
        if isinstance(self.execution.output, str):
            self.execution.output = json.dumps(self.execution.output)

    BaseExecutionWorkerCommunication._reflect_execution_status = reflect_as_json


@repair
def failures_keep_their_cause() -> None:
    """moto drops the cause that SendTaskFailure gives."""
    from moto.core.responses import EmptyResult
    from moto.stepfunctions.responses import StepFunctionResponse

    def send_task_failure(self: Any) -> Any:
        token, error, cause = (self._get_param(name) for name in ("taskToken", "error", "cause"))
        self.stepfunction_backend.send_task_failure(token, error=error, cause=cause)
        return EmptyResult()

    StepFunctionResponse.send_task_failure = send_task_failure


@repair
def starts_are_atomic() -> None:
    """moto looks for the name, copies the machine, then adds the execution: two callers both start; no name is None."""
    from moto.stepfunctions.parser.models import StepFunctionsParserBackend

    start, lock = StepFunctionsParserBackend.start_execution, threading.Lock()

    def start_execution(self: Any, state_machine_arn: str, name: str | None = None, *args: Any, **kwargs: Any) -> Any:
        with lock:
            return start(self, state_machine_arn, name or str(uuid.uuid4()), *args, **kwargs)

    StepFunctionsParserBackend.start_execution = start_execution


@repair
def stopped_executions_end() -> None:
    """moto lets a stopped execution wait for its task, for up to 30 days here, and may report it as failed then."""
    from moto.core.responses import ActionResult
    from moto.stepfunctions.parser.api import ExecutionStatus
    from moto.stepfunctions.parser.asl.eval.environment import Environment
    from moto.stepfunctions.parser.asl.eval.program_state import ProgramStopped
    from moto.stepfunctions.responses import StepFunctionResponse

    set_error = Environment.set_error

    def set_error_unless_stopped(self: Any, error: Any) -> None:
        if not isinstance(self._program_state, ProgramStopped):
            set_error(self, error)

    def stop_execution(self: Any) -> Any:
        execution = self.stepfunction_backend.describe_execution(self._get_param("executionArn"))
        if execution.exec_status == ExecutionStatus.RUNNING:
            environment = _environment(execution)
            execution.error, execution.cause = self._get_param("error"), self._get_param("cause")
            execution.stop_date = datetime.now(UTC)
            environment.set_stop(stop_date=execution.stop_date, cause=execution.cause, error=execution.error)
            execution.exec_status = ExecutionStatus.ABORTED
            for token, endpoint in list(environment.callback_pool_manager._pool.items()):
                _tokens.close(token)
                endpoint.interrupt_all()
        return ActionResult({"stopDate": execution.stop_date})

    Environment.set_error = set_error_unless_stopped
    StepFunctionResponse.stop_execution = stop_execution


def _environment(execution: Any) -> Any:
    """Return the environment of an execution, which its thread makes a moment after the start."""
    end_s = time.monotonic() + _START_WAIT_S
    while execution.exec_worker.env is None and time.monotonic() < end_s:
        time.sleep(0.005)
    return execution.exec_worker.env
