"""ECS in memory, on a virtual clock: tasks on Fargate, their events, and what keeps them from starting."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import botocore.session
from botocore.exceptions import ClientError, ParamValidationError
from botocore.validate import ParamValidator

from burstcache.adapters.clock import Clock
from support.roles import CLUSTER, REGION, check

NO_CAPACITY = "Capacity is unavailable at this time. Please try again later or in a different availability zone"
END_S = 5.0  # between the request to stop a task and its end
NOTICE_S = 120.0  # between the notice of an interruption and the end
_ARN = f"arn:aws:ecs:{REGION}:123456789012:task/{CLUSTER}"


@functools.cache
def _model() -> Any:
    return botocore.session.get_session().get_service_model("ecs")


@dataclass
class Task:
    """A task, as ECS describes it."""

    shown: dict[str, Any]
    is_known: bool = True  # ECS's answers are eventually consistent

    @property
    def arn(self) -> str:
        return str(self.shown["taskArn"])

    @property
    def node(self) -> str:
        return str(self.shown["startedBy"]).rpartition("/")[0]

    @property
    def host(self) -> str:
        return str(self.shown["attachments"][0]["details"][0]["value"])


@dataclass
class Events:
    """Handlers of a boto3 client's events, by event."""

    handlers: dict[str, dict[str, Callable[[], Any]]] = field(default_factory=dict)

    def register(self, event: str, handler: Callable[[], Any], unique_id: str) -> None:
        self.handlers.setdefault(event, {})[unique_id] = handler

    def unregister(self, event: str, unique_id: str) -> None:
        del self.handlers[event][unique_id]


@dataclass
class Meta:
    """Metadata of a boto3 client."""

    service_model: Any
    events: Events = field(default_factory=Events)


@dataclass
class MemoryEcs:
    """ECS, as a boto3 client. A test moves each task through its states, and each change has an event.

    Attributes:
        clock: The world's clock.
        full: Capacity providers without capacity.
        raises: Whether a refusal for lack of capacity is an error, rather than a failure in the answer.
        deliver: Receives each event's detail. None: events are lost.
        started: Called with each new task.
        stopped: Called with each task that is asked to stop.
        interrupted: Called with each task whose capacity is taken back.
    """

    clock: Clock
    full: set[str] = field(default_factory=set)
    raises: bool = False
    deliver: Callable[[dict[str, Any]], Any] | None = None
    started: Callable[[Task], None] = lambda _: None
    stopped: Callable[[Task], None] = lambda _: None
    interrupted: Callable[[Task], None] = lambda _: None
    tasks: list[Task] = field(default_factory=list)
    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    meta: Meta = field(default_factory=lambda: Meta(_model()))
    _by_token: dict[str, tuple[dict[str, Any], Task]] = field(default_factory=dict)

    # boto3's client

    def run_task(self, **asked: Any) -> dict[str, Any]:
        self._check("RunTask", asked)
        (strategy,) = asked["capacityProviderStrategy"]
        provider = strategy["capacityProvider"]
        if (known := self._by_token.get(asked["clientToken"])) is not None:
            if known[0] != asked:
                raise _error("ConflictException", "the client token was used with other parameters", "RunTask")
            return {"tasks": [known[1].shown], "failures": []}
        if provider in self.full:
            if self.raises:
                raise _error("ClientException", NO_CAPACITY, "RunTask")
            return {"tasks": [], "failures": [{"reason": NO_CAPACITY}]}
        number = len(self.tasks) + 1
        task = Task(
            {
                "taskArn": f"{_ARN}/{number:032x}",
                "startedBy": asked["startedBy"],
                "group": f"family:{asked['taskDefinition']}",
                "capacityProviderName": provider,
                "lastStatus": "PROVISIONING",
                "desiredStatus": "RUNNING",
                "attachments": [
                    {"type": "eni", "details": [{"name": "privateIPv4Address", "value": f"10.0.0.{number}"}]}
                ],
            }
        )
        self.tasks.append(task)
        self._by_token[asked["clientToken"]] = asked, task
        self.started(task)
        return {"tasks": [task.shown], "failures": []}

    def stop_task(self, **asked: Any) -> dict[str, Any]:
        self._check("StopTask", asked)
        task = self._find(asked["task"])
        if task is None:
            raise _error("InvalidParameterException", "The referenced task was not found.", "StopTask")
        if task.shown["desiredStatus"] != "STOPPED":
            task.shown |= {"desiredStatus": "STOPPED", "stopCode": "UserInitiated", "stoppedReason": asked["reason"]}
            self.stopped(task)
        return {"task": task.shown}

    def describe_tasks(self, **asked: Any) -> dict[str, Any]:
        self._check("DescribeTasks", asked)
        found = [task for task in map(self._find, asked["tasks"]) if task is not None and task.is_known]
        missing = len(asked["tasks"]) - len(found)
        return {"tasks": [{**task.shown} for task in found], "failures": [{"reason": "MISSING"}] * missing}

    def list_tasks(self, **asked: Any) -> dict[str, Any]:
        self._check("ListTasks", asked)
        status = asked.get("desiredStatus", "RUNNING")
        wanted = {"startedBy": asked["startedBy"]} if "startedBy" in asked else {"group": f"family:{asked['family']}"}
        found = [task for task in self.tasks if task.shown.items() >= ({"desiredStatus": status} | wanted).items()]
        return {"taskArns": [task.arn for task in found]}

    # a test's actions

    def task(self, arn: str) -> Task:
        """Return a task."""
        return next(each for each in self.tasks if each.arn == arn)

    def run(self, task: Task) -> Any:
        """Move a task to RUNNING, and deliver its event."""
        task.shown["lastStatus"] = "RUNNING"
        return self.post(task)

    def interrupt(self, task: Task, code: str = "SpotInterruption") -> Any:
        """Give notice of the end of a task, which goes on for now."""
        self.interrupted(task)
        return self._end(task, code, "Your Spot Task was interrupted.", last=task.shown["lastStatus"])

    def end(
        self, task: Task, code: str = "EssentialContainerExited", reason: str = "Essential container exited"
    ) -> Any:
        """End a task, for the reason of an earlier notice if there was one."""
        task.shown["lastStatus"] = "STOPPED"
        if task.shown["desiredStatus"] == "STOPPED":
            return self.post(task)
        return self._end(task, code, reason, last="STOPPED")

    def post(self, task: Task) -> Any:
        """Deliver the event of a task's present state."""
        return None if self.deliver is None else self.deliver({**task.shown})

    def running(self) -> list[Task]:
        """Return the tasks that are not asked to stop."""
        return [task for task in self.tasks if task.shown["desiredStatus"] == "RUNNING"]

    def _end(self, task: Task, code: str, reason: str, *, last: str) -> Any:
        task.shown |= {"lastStatus": last, "desiredStatus": "STOPPED", "stopCode": code, "stoppedReason": reason}
        return self.post(task)

    def _find(self, name: str) -> Task | None:
        return next((task for task in self.tasks if task.arn.endswith(name)), None)

    def _check(self, operation: str, asked: dict[str, Any]) -> None:
        """Check a call's parameters as boto3 does and the caller's role, and note the call."""
        assert asked["cluster"] == CLUSTER
        check("ecs", operation, asked)
        report = ParamValidator().validate(asked, _model().operation_model(operation).input_shape)
        if report.has_errors():
            raise ParamValidationError(report=report.generate_report())
        for refuse in self.meta.events.handlers.get(f"before-call.ecs.{operation}", {}).values():
            if (refused := refuse()) is not None:
                raise ClientError(refused[1], operation)
        self.calls.append((operation, asked))


def _error(code: str, message: str, operation: str) -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": message}}, operation)
