"""A whole stack: a world with AWS's schedules, event retries and dead-letter queues, and CloudWatch.

AWS takes the steps here that a test takes in a plain `World`. The template's alarms are evaluated on the lines that
functions print and on AWS's own metrics.
"""

from __future__ import annotations

import contextlib
import functools
import json
import random
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

from burstcache.core.keys import key_hash
from burstcache.core.parameters import US_PER_S
from burstcache.core.prices import price_sheet
from burstcache.core.rows import KeyRow
from burstcache_local.emf import MetricId, Sample, samples
from burstcache_local.stepfunctions.errors import StateError
from burstcache_sim.bill.control import CONTROL_MS
from burstcache_sim.bill.usage import JANITOR_MS, ORIGIN_MS, SCHEDULER_MS
from support.event_queue import DEAD, EventQueue
from support.functions import NODE
from support.metrics import STACK, alarms, metric_id, period_s, went_off
from support.project import template
from support.world import World, event_of_write

_FUNCTIONS = {
    "proxy": "ProxyFunction",
    "scheduler": "SchedulerFunction",
    "cache": "CacheFunction",
    "redis_control": "RedisControlFunction",
    "origin": "OriginFunction",
    "janitor": "JanitorFunction",
}
_RULES = {"scheduler": "SchedulerRule", "redis_control": "InstanceStoppedRule"}
_RETRIES_AFTER_S = (60, 120)  # after an asynchronous invocation failed (Lambda Developer Guide, "Error handling …")
_MINUTE_S = 60
_JANITOR_EVERY_S = 300
_CONCURRENCY = 10  # of a new account
_SHEET = price_sheet("today-us-east-1")
_HANDLERS_MS = {"scheduler": SCHEDULER_MS, "origin": ORIGIN_MS, "janitor": JANITOR_MS}
_OTHER_MS = 150  # other operations of Redis control, such as abandoning a node or stopping a cache function


@dataclass(frozen=True)
class Bill:
    """Bill of a stack so far: all its items but reads, storage and idle resources."""

    transitions: int
    node_s: float
    usd: float


class Stack(World):
    """World in which AWS takes the steps.

    Lambda throttles the functions in `refused`. EventBridge cannot reach those in `cut_off`.
    """

    def __init__(self, patch: pytest.MonkeyPatch, **options: Any) -> None:
        self.refused: set[str] = set()
        self.cut_off: set[str] = set()
        self.queues: dict[str, int] = {"FailedEvents": 0, "UndeliveredEvents": 0}
        self.has_janitor = True
        self._seen: list[tuple[int, Sample]] = []
        self._under_way = self._invocations = self._events = 0
        self._control_gb_s = 0.0
        self._units = {"dynamodb-read": 0, "dynamodb-write": 0}
        self._is_open = True
        super().__init__(patch, runs_machines=True, **options)
        self._began_us = self.clock.now_us()
        self._origin_events = EventQueue(
            self.clock, random.Random(1), start=self._start, invoke=functools.partial(self.invoke, "origin")
        )
        self._usual_machines = {self.key_machine: "KeyLifecycle", self.node_machine: "RedisNode"}
        patch.setenv("STACK_NAME", STACK)
        patch.setattr("burstcache.metrics.sys", SimpleNamespace(stdout=SimpleNamespace(write=self._hear, flush=int)))
        self.clients.dynamodb.meta.events.register("before-call.dynamodb", self._count_units, unique_id="stack")
        self._ticker = self.clock.start(self._tick)
        self._janitor: Future[None] = self.clock.start(self._clean_regularly)

    def close(self) -> None:
        """Stop the schedule, then everything else."""
        self._is_open = False
        self.clock.wait_for(self._ticker)
        self.clock.wait_for(self._janitor)
        self.clients.dynamodb.meta.events.unregister("before-call.dynamodb", unique_id="stack")
        super().close()

    # steps of a test

    def hot(self, key: str = "k") -> KeyRow:
        """Make a key hot and wait until readers see its cache function in the digest."""
        self.put_object(key)
        while self.row_or_none(key).phase == "s3":
            self.read(key)
            self.clock.sleep(1)
        self.until(lambda: self.row(key).tier == "lambda", within_s=10)
        self.clock.sleep(2)
        return self.row(key)

    def promoted(self, key: str = "k") -> KeyRow:
        """Read a hot key until it waits for its node."""
        self.hot(key)
        while not self.row(key).joined_at_us:
            self.read(key)
            self.clock.sleep(0.5)
        return self.row(key)

    def in_redis(self, key: str = "k") -> KeyRow:
        """Promote a key to Redis and wait until readers see it in the digest."""
        self.promoted(key)
        self.until(lambda: self.row(key).tier == "redis", within_s=120)
        self.clock.sleep(3)
        return self.row(key)

    def row_or_none(self, key: str) -> KeyRow:
        """Return the row of a key, or an empty one."""
        return self.keys.read(key_hash(key)) or KeyRow(key_hash(key), key)

    def is_at_rest(self, key: str = "k") -> bool:
        """Return whether nothing runs any more."""
        return (
            self.row_or_none(key).phase == "s3"
            and self.node().phase == "stopped"
            and not self.executions_of(self.key_machine)
            and not self.executions_of(self.node_machine)
            and self.machine_state() in ("stopped", "terminated")  # the most expensive check, so the last
        )

    # steps of AWS

    def answer(self, key: str) -> dict[str, Any]:
        """Return the front door's answer to a GET."""
        if "proxy" in self.refused:
            self._count("AWS/Lambda", "Throttles", FunctionName="proxy")
            return {"statusCode": 503}
        return super().answer(key)

    def invoke(self, function: str, payload: dict[str, Any], **more: Any) -> Any:
        """Invoke a function or throttle it."""
        if function in self.refused:
            self._count("AWS/Lambda", "Throttles", FunctionName=function)
            if function == "cache":  # Lambda accepts its event and drops it when it is too old
                return {}
            raise StateError("Lambda.TooManyRequestsException", "Rate Exceeded.")
        self._under_way += 1
        self._invocations += 1
        self._control_gb_s += _gb_s(function, payload)
        self._count("AWS/Lambda", "Invocations", FunctionName=function)
        self._count("AWS/Lambda", "ConcurrentExecutions", self._under_way)
        try:
            answer = super().invoke(function, payload, **more)
        except Exception:
            self._count("AWS/Lambda", "Errors", FunctionName=function)
            raise
        else:
            self._count("AWS/Lambda", "Errors", 0, FunctionName=function)
            return answer
        finally:
            self._under_way -= 1

    def deliver(self) -> None:
        """Publish the readers' reports to the event bus."""
        while self._bus.events:
            detail = self._bus.events.pop(0)
            kind = "RequestsServed" if "keys" in detail else "ObjectRequested"
            self._on_bus("scheduler", {"detail-type": kind, "detail": detail})

    def written(self, key: str) -> None:
        """Publish S3's event of a write, which waits in the queue."""
        self._events += 1
        self._origin_events.send(event_of_write(key))

    def task_changed(self, detail: dict[str, Any]) -> None:
        """Publish ECS's event about a task."""
        self._on_bus("redis_control", {"source": "aws.ecs", "detail": detail})

    def stopped(self, node: str = NODE) -> None:
        """Publish EC2's event that an instance has stopped."""
        detail = {"instance-id": self.instances.instance_ids[node], "state": "stopped"}
        self._on_bus("redis_control", {"source": "aws.ec2", "detail": detail})

    def redrive(self, name: str, input_: dict[str, Any], *, state: str) -> str:
        """Run an ended execution again from a state on, with the same name and input. Return its ARN."""
        prefix, _, _name = self.key_machine.rpartition(":")
        arn = f"{prefix}:redriven"
        self.make_machine("redriven", json.dumps(json.loads(self.definition("key_lifecycle")) | {"StartAt": state}))
        self._usual_machines[arn] = "KeyLifecycle"
        started = self.states_client.start_execution(stateMachineArn=arn, name=name, input=json.dumps(input_))
        return str(started["executionArn"])

    def _on_bus(self, function: str, event: dict[str, Any]) -> None:
        self._events += 1
        self._start(self._deliver_event, function, event)

    def _start(self, work: Callable[..., object], *arguments: Any) -> None:
        self._lives.append(self.clock.start(work, *arguments))

    def _deliver_event(self, function: str, event: dict[str, Any]) -> None:
        """Deliver one event: EventBridge to Lambda, Lambda to the function, both with the template's retry policy."""
        if function in self.cut_off:
            (target,) = template()["Resources"][_RULES[function]]["Properties"]["Targets"]
            self.clock.sleep(target["RetryPolicy"]["MaximumEventAgeInSeconds"])
            return self._put(target["DeadLetterConfig"]["Arn"])
        config = template()["Resources"][_FUNCTIONS[function]]["Properties"]["EventInvokeConfig"]
        give_up_us = self.clock.now_us() + config["MaximumEventAgeInSeconds"] * US_PER_S
        attempts = 0
        while True:
            try:
                self.invoke(function, event)
                return None
            except StateError:  # throttled, which uses up no attempt
                pause_s = 10.0
            except Exception:
                attempts += 1
                if attempts > config["MaximumRetryAttempts"]:
                    break
                pause_s = _RETRIES_AFTER_S[attempts - 1]
            if self.clock.now_us() + pause_s * US_PER_S > give_up_us:
                break
            self.clock.sleep(pause_s)
        return self._put(config["DestinationConfig"]["OnFailure"]["Destination"])

    def _put(self, queue: dict[str, list[str]]) -> None:
        self.queues[queue["Fn::GetAtt"][0]] += 1

    def report_failure(self, payload: dict[str, Any], error: Exception) -> None:
        """Publish Lambda's record of a failed invocation to the event bus."""
        response = {"errorType": type(error).__name__, "errorMessage": str(error)}
        detail = {"requestPayload": payload, "responsePayload": response}
        self._on_bus("scheduler", {"source": "lambda", "detail-type": "", "detail": detail})

    def _clean_regularly(self) -> None:
        while self._is_open:
            if self.has_janitor:
                with contextlib.suppress(Exception):
                    self.invoke("janitor", {})
            self._sleep(_JANITOR_EVERY_S)

    def _sleep(self, seconds: int) -> None:
        """Sleep, but at most until the world is closed, to within a minute."""
        for _ in range(seconds // _MINUTE_S):
            if self._is_open:
                self.clock.sleep(_MINUTE_S)

    # metrics in CloudWatch

    def alarms(self) -> set[str]:
        """Return the template's alarms that have fired so far."""
        self._count_executions()
        now_us = self.clock.now_us()
        thresholds = {"ConcurrencyAlarm": 0.8 * _CONCURRENCY}
        gone_off = set()
        for alarm in alarms():
            length_us = period_s(alarm) * US_PER_S
            periods: list[list[Sample]] = [[] for _ in range((now_us - self._began_us) // length_us)]
            watched = metric_id(alarms()[alarm])
            for at_us, sample in self._seen:
                at = (at_us - self._began_us) // length_us
                if sample.metric == watched and at < len(periods):
                    periods[at].append(sample)
            if went_off(alarm, periods, thresholds=thresholds):
                gone_off.add(alarm)
        return gone_off

    def bill(self) -> Bill:
        """Return the stack's bill so far. Cache functions and nodes count by their own metrics."""
        transitions = sum(self._transitions(arn) for arn in self._executions())
        of_metrics = {name: self._sum(name) for name in ("EstimatedCostUsd", "NodeSeconds")}
        counts = {
            "transition": transitions,
            "lambda-request": self._invocations,
            "event": self._events,
            "lambda-duration:arm": self._control_gb_s,
            **self._units,
        }
        usd = of_metrics["EstimatedCostUsd"] + sum(float(_SHEET.usd(item)) * count for item, count in counts.items())
        return Bill(transitions, of_metrics["NodeSeconds"], usd)

    def _sum(self, name: str) -> float:
        return sum(sample.value for _, sample in self._seen if sample.metric.name == name)

    def _hear(self, text: str) -> None:
        self._seen += [(self.clock.now_us(), sample) for sample in samples(text)]

    def _count(self, namespace: str, name: str, value: float = 1, **dimensions: str) -> None:
        named = frozenset((each, _reference(of)) for each, of in dimensions.items())
        sample = Sample(MetricId(namespace, name, named), "Count", value, 0)
        self._seen.append((self.clock.now_us(), sample))

    def _count_units(self, model: Any, **_: object) -> None:
        kind = "dynamodb-read" if model.name in ("GetItem", "BatchGetItem", "Query") else "dynamodb-write"
        self._units[kind] += 2 if model.name == "TransactWriteItems" else 1

    def _tick(self) -> None:
        """Record AWS's own metrics every minute."""
        while self._is_open:
            failed = self.queues | {"FailedEvents": self.queues["FailedEvents"] + self._origin_events.counts[DEAD]}
            for queue, length in failed.items():
                self._count("AWS/SQS", "ApproximateNumberOfMessagesVisible", length, QueueName=queue)
            oldest_s = self._origin_events.oldest_s()
            self._count("AWS/SQS", "ApproximateAgeOfOldestMessage", oldest_s, QueueName="OriginEventsQueue")
            if not self.relay.is_down:
                self._count("AWS/ECS", "CPUUtilization", ClusterName="RelayCluster", ServiceName="RelayService")
            if "proxy" in self.refused:
                self._count("AWS/Lambda", "ConcurrentExecutions", _CONCURRENCY)
            self.clock.sleep(_MINUTE_S)

    def _count_executions(self) -> None:
        """Record failed and timed-out executions at the times they ended, in place of those recorded before."""
        kinds = {"FAILED": "ExecutionsFailed", "TIMED_OUT": "ExecutionsTimedOut"}
        self._seen = [(at_us, sample) for at_us, sample in self._seen if sample.metric.namespace != "AWS/States"]
        for arn in self._executions():
            described = self.states_client.describe_execution(executionArn=arn)
            if described["status"] in kinds:
                machine = self._usual_machines[described["stateMachineArn"]]
                metric = MetricId(
                    "AWS/States", kinds[described["status"]], frozenset({("StateMachineArn", _reference(machine))})
                )
                at_us = round(described["stopDate"].timestamp() * US_PER_S)
                self._seen.append((at_us, Sample(metric, "Count", 1, 0)))

    def _executions(self) -> Iterator[str]:
        for machine in self._usual_machines:
            listed = self.states_client.get_paginator("list_executions").paginate(stateMachineArn=machine)
            yield from (execution["executionArn"] for page in listed for execution in page["executions"])

    def _transitions(self, arn: str) -> int:
        """Return the number of an execution's transitions, including retries."""
        pages = self.states_client.get_paginator("get_execution_history").paginate(executionArn=arn)
        kinds = [event["type"] for page in pages for event in page["events"]]
        entered = sum(kind.endswith("StateEntered") for kind in kinds)
        return entered + max(kinds.count("TaskScheduled") - kinds.count("TaskStateEntered"), 0)


def _gb_s(function: str, payload: dict[str, Any]) -> float:
    """Return an invocation's usage as the simulator bills the control plane [GB-s]. Calls take no time in a world."""
    properties = template()["Resources"][_FUNCTIONS[function]]["Properties"]
    memory_mb = properties.get("MemorySize", template()["Globals"]["Function"]["MemorySize"])
    duration_ms = _HANDLERS_MS.get(function) or CONTROL_MS.get(payload.get("op", "instance_stopped"), _OTHER_MS)
    return 0.0 if function in ("proxy", "cache") else duration_ms / 1000 * memory_mb / 1024


@functools.cache
def _reference(name: str) -> str:
    """Return a resource's reference as it appears in the dimensions of the template's alarms."""
    names = dict.fromkeys(("FailedEvents", "UndeliveredEvents", "OriginEventsQueue"), "QueueName")
    names["RelayService"] = "Name"
    if name in names:
        return json.dumps({"Fn::GetAtt": [name, names[name]]})
    return json.dumps({"Ref": _FUNCTIONS.get(name, name)})
