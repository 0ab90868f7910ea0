"""Repairs to how moto's state machine interpreter runs its states."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache, lru_cache
from typing import Any

from burstcache_local.moto import endpoints
from burstcache_local.moto.registry import repair
from burstcache_local.moto.sfn_value_repairs import replace_everywhere


@repair
def waits_end_at_their_instant() -> None:
    """moto compares a timestamp with local time and cuts the difference to whole seconds: it fires up to 2 s early."""
    from moto.stepfunctions.parser.asl.component.common.error_name.failure_event import FailureEventException
    from moto.stepfunctions.parser.asl.component.state.wait.wait_function import timestamp, wait_function

    def wait_s(self: Any, env: Any) -> float:
        self.string.eval(env=env)
        text = env.stack.pop()
        try:
            at = datetime.fromisoformat(text)
        except (TypeError, ValueError):
            raise FailureEventException(self._create_failure_event(env, text)) from None
        return max(0.0, (at - datetime.now(UTC)).total_seconds())

    def wait(self: Any, env: Any, wait_seconds: float) -> None:
        end_s = time.monotonic() + wait_seconds
        while env.is_running() and (left_s := end_s - time.monotonic()) > 0:
            env.program_state_event.wait(min(left_s, 3600.0))

    timestamp.Timestamp._get_wait_seconds = wait_s
    wait_function.WaitFunction._wait_interval = wait


@repair
def sdk_tasks_use_sdk_names() -> None:
    """moto emptied what turns `TableName` and `Key` into a request, and the answer's names and times into JSON."""
    import boto3
    from moto.stepfunctions.parser.asl.component.state.exec.state_task.service.state_task_service_aws_sdk import (
        StateTaskServiceAwsSdk,
    )
    from moto.stepfunctions.parser.asl.component.state.exec.state_task.service.state_task_service_sfn import (
        StateTaskServiceSfn,
    )

    session = boto3.Session()
    write_input_as_text = StateTaskServiceSfn._normalise_parameters

    @cache
    def operation(service: str, action: str) -> Any:
        model = session._session.get_service_model(service)
        name = next(name for name in model.operation_names if name.lower() == action.replace("_", "").lower())
        return model.operation_model(name)

    def model_of(task: Any, service: str | None, action: str | None) -> Any:
        return operation(task._get_boto_service_name(service), task._get_boto_service_action(action))

    def request(
        self: Any, parameters: Any, boto_service_name: str | None = None, service_action_name: str | None = None
    ) -> None:
        if shape := model_of(self, boto_service_name, service_action_name).input_shape:
            self._to_boto_request(parameters, shape)

    def response(
        self: Any, response: Any, boto_service_name: str | None = None, service_action_name: str | None = None
    ) -> None:
        if shape := model_of(self, boto_service_name, service_action_name).output_shape:
            self._from_boto_response(response, shape)
        _times_to_text(response)

    def request_of_execution(
        self: Any, parameters: Any, boto_service_name: str | None = None, service_action_name: str | None = None
    ) -> None:
        write_input_as_text(self, parameters, boto_service_name, service_action_name)
        request(self, parameters, boto_service_name, service_action_name)

    StateTaskServiceAwsSdk._normalise_parameters = request
    StateTaskServiceSfn._normalise_parameters = request_of_execution
    StateTaskServiceAwsSdk._normalise_response = StateTaskServiceSfn._normalise_response = response


def _times_to_text(value: Any) -> Any:
    """Replace times in place, at any depth: they cannot be JSON."""
    if isinstance(value, dict):
        value.update({name: _times_to_text(part) for name, part in value.items()})
    elif isinstance(value, list):
        value[:] = map(_times_to_text, value)
    elif isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    return value


@repair
def invocation_type_reaches_lambda() -> None:
    """moto drops InvocationType and TenantId without a word."""
    from moto.stepfunctions.parser.asl.component.state.exec.state_task.service import state_task_service_lambda

    state_task_service_lambda._SUPPORTED_API_PARAM_BINDINGS["invoke"] |= {"InvocationType", "TenantId"}


@repair
def tasks_share_clients() -> None:
    """moto makes a client per task, which costs up to 60 ms of CPU, and sends invocations to its own Lambda."""

    def boto_client_for(region: str, service: str, state_credentials: Any = None) -> Any:
        return endpoints.client(service)

    replace_everywhere("boto_client_for", boto_client_for)


@repair
def states_errors_are_passed_on() -> None:
    """moto refuses errors named States.… in a Fail state and from a branch of Parallel or Map: uncaught."""
    from moto.stepfunctions.parser.asl.component.common.error_name.custom_error_name import CustomErrorName
    from moto.stepfunctions.parser.asl.component.common.error_name.states_error_name import StatesErrorName
    from moto.stepfunctions.parser.asl.component.state.exec.state_map.iteration import iteration_worker
    from moto.stepfunctions.parser.asl.component.state.exec.state_parallel import branches_decl
    from moto.stepfunctions.parser.asl.component.state.fail import state_fail

    def any_name(error_name: str | None = None) -> Any:
        of_states = (error_name or "").startswith("States.")
        return StatesErrorName.from_name(error_name) if of_states else CustomErrorName(error_name)

    branches_decl.CustomErrorName = iteration_worker.CustomErrorName = state_fail.CustomErrorName = any_name


@repair
def lost_heartbeats_have_their_error_name() -> None:
    """moto reports a lost heartbeat as States.Timeout."""
    from moto.stepfunctions.parser.api import HistoryEventType, TaskTimedOutEventDetails
    from moto.stepfunctions.parser.asl.component.common.error_name.failure_event import FailureEvent
    from moto.stepfunctions.parser.asl.component.common.error_name.states_error_name import StatesErrorName
    from moto.stepfunctions.parser.asl.component.state.exec.state_task.service.state_task_service_callback import (
        StateTaskServiceCallback,
    )
    from moto.stepfunctions.parser.asl.eval.callback.callback import HeartbeatTimeoutError
    from moto.stepfunctions.parser.asl.eval.event.event_detail import EventDetails

    of_other_errors: Callable[[Any, Any, Exception], Any] = StateTaskServiceCallback._from_error
    error_name = StatesErrorName.from_name("States.HeartbeatTimeout")

    def from_error(self: Any, env: Any, ex: Exception) -> Any:
        if not isinstance(ex, HeartbeatTimeoutError):
            return of_other_errors(self, env, ex)
        details = TaskTimedOutEventDetails(
            resourceType=self._get_sfn_resource_type(),
            resource=self._get_sfn_resource(),
            error=error_name.error_name,
        )
        return FailureEvent(
            env=env,
            error_name=error_name,
            event_type=HistoryEventType.TaskTimedOut,
            event_details=EventDetails(taskTimedOutEventDetails=details),
        )

    StateTaskServiceCallback._from_error = from_error


@repair
def quick_completions_are_seen() -> None:
    """moto misses a completion that comes before its task waits, if the task has heartbeats: it waits for one more."""
    from moto.stepfunctions.parser.asl.component.state.exec.state_task.service.state_task_service_callback import (
        StateTaskServiceCallback,
    )

    wait = StateTaskServiceCallback._wait_for_task_token_heartbeat

    def look_and_wait(self: Any, env: Any, callback_endpoint: Any, heartbeat_endpoint: Any) -> Any:
        return callback_endpoint.get_outcome() or wait(self, env, callback_endpoint, heartbeat_endpoint)

    StateTaskServiceCallback._wait_for_task_token_heartbeat = look_and_wait


@repair
def definitions_are_parsed_once() -> None:
    """moto parses a definition at every start, 40 ms of CPU; what it makes of it holds nothing of an execution."""
    from moto.stepfunctions.parser.asl.parse.asl_parser import AmazonStateLanguageParser

    AmazonStateLanguageParser.parse = staticmethod(lru_cache(maxsize=64)(AmazonStateLanguageParser.parse))
