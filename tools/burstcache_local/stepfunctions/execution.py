"""One execution of a state machine in an event loop. All waits use the loop's clock.

The event history has the same events, order and error names as on AWS. For example, a missed heartbeat is
`States.Timeout` without a cause, and a state with an uncaught error has no exit event.
"""

from __future__ import annotations

import asyncio
import json
import pickle
import random
import zlib
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from burstcache_local.stepfunctions.definition import TOKEN_SUFFIX, State, resource_of
from burstcache_local.stepfunctions.errors import QUERY, TIMEOUT, StateError
from burstcache_local.stepfunctions.expressions import evaluate
from burstcache_local.stepfunctions.tokens import Tokens

Call = Callable[[dict[str, Any]], Awaitable[Any]]  # maps a task's arguments to its result; raises StateError
Transition = tuple[str | None, Any]  # the next state and its input (None: the execution ends)

TRACE: ContextVar[str] = ContextVar("trace", default="")  # an execution's trace header, or empty

ROLE: ContextVar[str] = ContextVar("role", default="")  # ARN of the state machine's role

_MOST_S = 99_999_999


@dataclass(slots=True)
class Execution:
    """One execution of a state machine."""

    arn: str
    machine_arn: str
    role_arn: str
    definition: Mapping[str, Any]
    input: str  # exactly as received
    calls: Mapping[str, Call]  # by resource
    tokens: Tokens
    now_us: Callable[[], int]
    on_enter: Callable[[Execution, str], None]  # called before each state, and may stop the execution
    on_end: Callable[[Execution], None]  # called at the end of the execution
    status: str = "RUNNING"
    output: str = ""
    error: str = ""
    cause: str = ""
    started_at: datetime = field(init=False)
    stopped_at: datetime | None = None
    _events: list[dict[str, Any]] = field(default_factory=list)
    _archive: bytes = b""  # compressed events of an ended execution, in a tenth of the memory
    _variables: dict[str, Any] = field(default_factory=dict)  # assigned by states
    _context: dict[str, Any] = field(default_factory=dict)
    _task: asyncio.Task[None] | None = None

    def __post_init__(self) -> None:
        self.started_at = self._now()

    @property
    def name(self) -> str:
        """Name of the execution, unique in its state machine."""
        return self.arn.rpartition(":")[2]

    @property
    def events(self) -> list[dict[str, Any]]:
        """All events so far, oldest first."""
        return pickle.loads(zlib.decompress(self._archive)) if self._archive else self._events

    def start(self) -> None:
        """Start the execution."""
        self._task = asyncio.get_running_loop().create_task(self._run(), name=self.name)
        self._task.add_done_callback(self._archive_events)

    def stop(self, error: str = "", cause: str = "") -> None:
        """Abort the execution immediately if it is running."""
        if self.status == "RUNNING" and self._task is not None:
            self._end("ABORTED", error=error, cause=cause)
            self._task.cancel()

    def _archive_events(self, _: asyncio.Task[None]) -> None:
        """Compress the events of an ended execution, and drop all other data that the API does not report.

        Memory matters, because a day of bursts can leave tens of thousands of executions.
        """
        self._archive = zlib.compress(pickle.dumps(self._events))
        self._events, self._variables, self._context, self._task = [], {}, {}, None

    async def _run(self) -> None:
        ROLE.set(self.role_arn)
        value = json.loads(self.input)
        self._context |= {
            "Execution": {
                "Id": self.arn,
                "Input": value,
                "Name": self.name,
                "RoleArn": self.role_arn,
                "StartTime": _text(self.started_at),
            },
            "StateMachine": {"Id": self.machine_arn, "Name": self.machine_arn.rpartition(":")[2]},
        }
        self._log("ExecutionStarted", input=self.input, roleArn=self.role_arn)
        name: str | None = self.definition["StartAt"]
        try:
            while name is not None:
                self.on_enter(self, name)
                if self.status != "RUNNING":
                    return
                name, value = await self._step(name, self.definition["States"][name], value)
        except StateError as error:
            self._end("FAILED", error=error.name, cause=error.cause)
        except Exception as error:  # raised by an integration: fail instead of hanging
            self._end("FAILED", error="States.Runtime", cause=repr(error))
        else:
            self._end("SUCCEEDED", output=json.dumps(value))

    async def _step(self, name: str, state: State, value: Any) -> Transition:
        self._context["State"] = {"EnteredTime": _text(self._now()), "Name": name, "RetryCount": 0}
        self._log(f"{state['Type']}StateEntered", name=name, input=json.dumps(value))
        part = state
        match state["Type"]:
            case "Fail":
                raise StateError(*(self._evaluate(state.get(field, ""), input=value) for field in ("Error", "Cause")))
            case "Task":
                return await self._task_state(state, value)
            case "Choice":
                part = self._choose_rule(state, value)
            case "Wait":
                await asyncio.sleep(self._wait_s(state, value))
        return self._leave(part, default=value, input=value)

    async def _task_state(self, state: State, value: Any) -> Transition:
        """Run a task with retries until it succeeds, no retrier matches the error, or the retries are exhausted."""
        retries = [0] * len(state.get("Retry", ()))
        while True:
            try:
                result = await self._attempt(state, value)
                return self._leave(state, default=result, input=value, result=result)
            except StateError as error:
                if (delay_s := _retry_delay_s(state, error, retries)) is None:
                    return self._catch(state, value, error)
            self._context["State"]["RetryCount"] += 1
            await asyncio.sleep(delay_s)

    async def _attempt(self, state: State, value: Any) -> Any:
        resource, has_token = resource_of(state)
        heartbeat_s, timeout_s = (
            self._evaluate(state[field], _seconds, input=value) if field in state else None
            for field in ("HeartbeatSeconds", "TimeoutSeconds")
        )
        kind, _, action = resource.rpartition(":")
        task = {"resourceType": kind, "resource": action + TOKEN_SUFFIX * has_token}
        token = self.tokens.open(self.arn, heartbeat_s) if has_token else ""
        self._context["Task"] = {"Token": token} if has_token else {}
        try:
            arguments = self._evaluate(state.get("Arguments", {}), input=value)
            limits = {"timeoutInSeconds": timeout_s, "heartbeatInSeconds": heartbeat_s}
            self._log("TaskScheduled", **task, parameters=json.dumps(arguments), **limits)
            self._log("TaskStarted", **task)
            result = await self._call_resource(resource, arguments, token, timeout_s, task)
        finally:
            self.tokens.close(token)
            del self._context["Task"]
        self._log("TaskSucceeded", **task, output=json.dumps(result))
        return result

    async def _call_resource(
        self, resource: str, arguments: dict[str, Any], token: str, timeout_s: float | None, task: dict[str, str]
    ) -> Any:
        """Call a task's resource, and wait for the task token if there is one. Log timeouts and errors."""
        try:
            async with asyncio.timeout(timeout_s) as timeout:
                if token:
                    self.tokens.ends_with(token, timeout)
                result = await self.calls[resource](arguments)
                if token:
                    self._log("TaskSubmitted", **task, output=json.dumps(result))
                    result = await self.tokens.completed(token)
            return result
        except TimeoutError:
            self._log("TaskTimedOut", **task, error=TIMEOUT)
            raise StateError(TIMEOUT) from None
        except StateError as error:
            self._log("TaskTimedOut" if error.name == TIMEOUT else "TaskFailed", **task, **_details(error))
            raise

    def _catch(self, state: State, value: Any, error: StateError) -> Transition:
        for catcher in state.get("Catch", ()):
            if error.matches(catcher["ErrorEquals"]):
                output = {"Error": error.name, "Cause": error.cause}
                return self._leave(catcher, default=output, input=value, errorOutput=output)
        raise error

    def _choose_rule(self, state: State, value: Any) -> State:
        """Return the first rule with a true condition, or the state itself if it has a default."""
        for rule in state["Choices"]:
            if self._evaluate(rule["Condition"], _truth, input=value):
                return dict(rule)
        if "Default" not in state:
            raise StateError("States.NoChoiceMatched", f"no condition of {self._context['State']['Name']} is true")
        return state

    def _wait_s(self, state: State, value: Any) -> float:
        if "Seconds" in state:
            return float(self._evaluate(state["Seconds"], _seconds, input=value))
        at: datetime = self._evaluate(state["Timestamp"], _instant, input=value)
        return max(0.0, (at - self._now()).total_seconds())

    def _leave(self, part: State, *, default: Any, **states: Any) -> Transition:
        """Leave the current state with the Output and Assign of `part` (a state, a choice rule or a catcher)."""
        output = self._evaluate(part["Output"], **states) if "Output" in part else default
        assigned = self._evaluate(part.get("Assign", {}), **states)
        self._variables |= assigned
        name = self._context["State"]["Name"]
        kind = self.definition["States"][name]["Type"]
        assigned_texts = (
            {"assignedVariables": {each: json.dumps(value) for each, value in assigned.items()}} if assigned else {}
        )
        self._log(f"{kind}StateExited", name=name, output=json.dumps(output), **assigned_texts)
        return part.get("Next", part.get("Default")), output

    def _evaluate(self, template: Any, convert: Callable[[Any], Any] = lambda value: value, **states: Any) -> Any:
        variables = {**self._variables, "states": {**states, "context": self._context}}
        try:
            return convert(evaluate(template, variables, now_us=self.now_us()))
        except StateError as error:
            self._log("EvaluationFailed", **_details(error), state=self._context["State"]["Name"])
            raise

    def _end(self, status: str, *, output: str = "", error: str = "", cause: str = "") -> None:
        self.status, self.output, self.error, self.cause = status, output, error, cause
        self.stopped_at = self._now()
        self._log(f"Execution{status.title()}", **_non_empty(output=output, error=error, cause=cause))
        self.on_end(self)

    def _log(self, kind: str, **details: Any) -> None:
        """Append an event, in the format of GetExecutionHistory."""
        number = len(self._events) + 1
        shared = [name for name in ("StateEntered", "StateExited") if kind.endswith(name)]
        prefix = shared[0] if shared else kind
        self._events.append(
            {
                "id": number,
                "previousEventId": 0 if number <= 2 or kind == "ExecutionAborted" else number - 1,
                "timestamp": self._now(),
                "type": kind,
                f"{prefix[0].lower()}{prefix[1:]}EventDetails": _non_empty(**details),
            }
        )

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self.now_us() / 1e6, UTC)


def _retry_delay_s(state: State, error: StateError, retries: list[int]) -> float | None:
    """Return the delay before the next attempt [s], or None if no attempt is left. Count the retry in `retries`.

    Source:
        Amazon States Language, "Retrying after error": only the first matching retrier applies.
    """
    for i, retrier in enumerate(state.get("Retry", ())):
        if error.matches(retrier["ErrorEquals"]):
            if retries[i] >= retrier.get("MaxAttempts", 3):
                return None
            delay_s = retrier.get("IntervalSeconds", 1) * retrier.get("BackoffRate", 2.0) ** retries[i]
            delay_s = min(delay_s, retrier.get("MaxDelaySeconds", delay_s))
            retries[i] += 1
            return random.uniform(0, delay_s) if retrier.get("JitterStrategy") == "FULL" else float(delay_s)
    return None


def _seconds(value: Any) -> float:
    if isinstance(value, int | float) and 0 <= value <= _MOST_S:
        return value
    raise StateError(QUERY, f"{value!r}: expected a number of seconds from 0 to {_MOST_S}")


def _instant(value: Any) -> datetime:
    try:
        if (at := datetime.fromisoformat(value)).tzinfo is not None:
            return at
    except (TypeError, ValueError):
        pass
    raise StateError(QUERY, f"{value!r}: expected an ISO 8601 time with an offset")


def _truth(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    raise StateError(QUERY, f"{value!r}: expected true or false")


def _details(error: StateError) -> dict[str, str]:
    return _non_empty(error=error.name, cause=error.cause)


def _non_empty(**details: Any) -> dict[str, Any]:
    return {name: value for name, value in details.items() if value not in ("", None)}


def _text(at: datetime) -> str:
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
