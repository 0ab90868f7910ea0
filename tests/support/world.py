"""The deployed functions on a virtual clock: their real handlers, moto, an in-process Redis and relay, our interpreter.

Nothing in it waits for real time. State machines either hold what they are given, so that a test takes every step
itself (`World`), or run as they are deployed (`World(runs_machines=True)`).
"""

from __future__ import annotations

import asyncio
import functools
import json
import threading
import time
import uuid
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any, TypeVar

import pytest

from burstcache.adapters.digest_reader import DigestReader, at_once
from burstcache.adapters.digest_table import DigestTable
from burstcache.adapters.event_publisher import EventPublisher
from burstcache.adapters.executions import Executions, execution_arn
from burstcache.adapters.hot_keys import HotKeys
from burstcache.adapters.instances import Instances
from burstcache.adapters.key_table import KeyTable
from burstcache.adapters.node_table import NodeTable
from burstcache.adapters.object_store import ObjectStore
from burstcache.adapters.pauses import Pauses
from burstcache.adapters.relay import RelayRequests
from burstcache.adapters.secrets import Secrets
from burstcache.adapters.use_table import UseTable
from burstcache.control.cache_environment import CacheEnvironment, warm_copies
from burstcache.control.cache_life import CacheTools
from burstcache.control.demand import Judge, judge
from burstcache.control.janitor import Janitor
from burstcache.control.node_runs import NodeRuns
from burstcache.control.operations import RedisControl
from burstcache.control.origin_changes import OriginChanges
from burstcache.control.scheduler import Scheduler
from burstcache.core.digest import Route
from burstcache.core.keys import key_hash
from burstcache.core.messages.events import OBJECT_REQUESTED, REQUESTS_SERVED, ObjectRequested, RequestsServed
from burstcache.core.parameters import US_PER_S, parameters_from_text
from burstcache.core.policies import LivePolicy, thesis
from burstcache.core.table import KeyRow, LeaseColumns, NodeRow
from burstcache.handlers import cache, janitor, origin, redis_control, scheduler
from burstcache.handlers.proxy import Proxy
from burstcache.serve.cache_function_tier import LambdaTier
from burstcache.serve.memory_tier import Memory
from burstcache.serve.read_meter import ReadMeter
from burstcache.serve.reader import EXPRESS, Reader
from burstcache.serve.redis_tier import RedisGuestTier, RedisNodeTier
from burstcache.serve.s3_tier import S3Tier
from burstcache.serve.tier import Tier
from burstcache.settings import RedisNode, RelayAccess
from burstcache_local.stepfunctions.errors import StateError
from burstcache_local.stepfunctions.http import HttpApi
from burstcache_local.stepfunctions.integrations import update_item_of
from burstcache_local.stepfunctions.service import StepFunctions
from support.aws import BUCKET, REGION, TABLE, answer_by, clients, make_instance, make_stack
from support.memory_relay import MemoryRelay
from support.metrics import METER
from support.project import ROOT
from support.redis_in_process import NodeRedis, ObjectsInProcess
from support.virtual_time import VirtualClock

T = TypeVar("T")

NODE = "node-1"
MAX_OBJECT_BYTES = 4 << 20
BOOT_S, STOP_S = 0.5, 10  # of an instance
_ROLE = "arn:aws:iam::123456789012:role/any"
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


class _Bus(EventPublisher):
    """Keeps what the proxy reports until it is delivered."""

    def __init__(self) -> None:
        self.events: list[ObjectRequested | RequestsServed] = []

    def start(self, event: ObjectRequested | RequestsServed) -> None:
        self.events.append(event)

    def finish(self, report: object, **_: object) -> None:
        pass

    def close(self) -> None:
        pass


class World:
    """One table, one bucket, one node unless more are asked for, and the functions that work on them."""

    def __init__(
        self,
        patch: pytest.MonkeyPatch,
        *,
        runs_machines: bool = False,
        has_relay: bool = True,
        policy: LivePolicy | None = None,
        nodes: int = 1,
    ) -> None:
        self.node_names = [f"node-{number}" for number in range(1, nodes + 1)]
        self.clock = VirtualClock(time.time_ns() // 1000)  # instances in moto are started in real time
        self.has_relay, self.relay = has_relay, MemoryRelay(self.clock)
        self.redis = NodeRedis()
        self.policy = policy or thesis(parameters_from_text(rate="9", sensitivity="4"))
        self.parameters = self.policy.parameters
        self.clients, self.states_client = clients(), clients().states
        make_stack()
        self._tokens: defaultdict[str, Future[str]] = defaultdict(Future)
        self._lives: list[Future[Any]] = []
        self._in_thread = threading.local()
        self._start_step_functions()
        self._make_machines(runs_machines)
        self._make_parts()
        self._runs_machines = runs_machines
        if runs_machines:
            for call, then in (("StartInstances", self._instance_boots), ("StopInstances", self._instance_stops)):
                event = f"after-call.ec2.{call}"
                self.clients.ec2.meta.events.register(event, functools.partial(self._later, then), f"world {call}")
        for handler, maker, part in (
            (scheduler, "scheduler", "judge"),
            (redis_control, "control", "control"),
            (origin, "changes", "origin_changes"),
            (janitor, "janitor", "janitor"),
        ):
            patch.setattr(handler, maker, functools.partial(getattr, self, part))
        patch.setattr(cache, "environment", lambda: self._in_thread.environment)

    def close(self) -> None:
        """Let the lives under way end, then everything else."""
        if self._runs_machines:
            for call in ("StartInstances", "StopInstances"):
                self.clients.ec2.meta.events.unregister(f"after-call.ec2.{call}", unique_id=f"world {call}")
        for life in self._lives:
            self.clock.wait_for(life)
        self.clock.wait_for(asyncio.run_coroutine_threadsafe(self._stop_executions(), self._loop))
        self.clock.wait_for_all(but=self._loop_thread)  # a step under way would go on in the next test's world
        self._loop.call_soon_threadsafe(self._loop.stop)
        self.clock.wait_for(self._loop_thread)
        self._loop.close()

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
        self.key_machine, self.node_machine, self.token_machine = (f"{arn}:{name}" for name in ("key", "node", "token"))
        substitutions = {
            "CacheFunctionArn": "cache",
            "RedisControlFunctionArn": "redis_control",
            "RedisNodeArn": self.node_machine,
            "TableName": TABLE,
        }
        deployed = {"key": "key_lifecycle", "node": "redis_node"} if runs else {}
        for name in ("key", "node", "token"):
            text = _HOLD
            if name in deployed:
                text = (ROOT / "statemachines" / f"{deployed[name]}.asl.json").read_text()
                for placeholder, value in substitutions.items():
                    text = text.replace(f"${{{placeholder}}}", value)
            self.states_client.create_state_machine(name=name, definition=text, roleArn=_ROLE)

    def _make_parts(self) -> None:
        nodes = [RedisNode(name, make_instance(), "127.0.0.1", 6379) for name in self.node_names]
        aws, clock = self.clients, self.clock
        self.keys, self.nodes = KeyTable(TABLE, aws.dynamodb, clock), NodeTable(TABLE, aws.dynamodb)
        self.digest = DigestTable(TABLE, aws.dynamodb)
        self.executions, self.objects = Executions(self.states_client), ObjectStore(BUCKET, aws.s3)
        servers = [self.redis, *(NodeRedis() for _ in nodes[1:])]
        self.memories = {node.name: server for node, server in zip(nodes, servers, strict=True)}
        self.stores = {node.name: ObjectsInProcess(node, self.memories[node.name].client) for node in nodes}
        self.store = self.stores[NODE]
        self.instances = Instances({node.name: node.instance_id for node in nodes}, aws.ec2)
        self.uses, self._bus = UseTable(TABLE, aws.dynamodb), _Bus()
        self.pauses = Pauses(TABLE, aws.dynamodb, clock)
        self.control = RedisControl(
            node_names=self.node_names,
            always_on=[],
            uses=self.uses,
            nodes=self.nodes,
            keys=self.keys,
            digest=self.digest,
            executions=self.executions,
            instances=self.instances,
            pauses=self.pauses,
            objects=self.objects,
            relay=self.relay if self.has_relay else RelayRequests(RelayAccess(""), Secrets(aws.secrets), clock),
            store=self.stores.__getitem__,
            machine_arn=self.node_machine,
            max_object_bytes=MAX_OBJECT_BYTES,
            policy=self.policy,
            clock=clock,
            meter=METER,
        )
        self.scheduler = Scheduler(
            keys=self.keys,
            nodes=self.nodes,
            hot_keys=HotKeys(self.keys, 3, aws.dynamodb, clock),
            pauses=self.pauses,
            executions=self.executions,
            machine_arn=self.key_machine,
            node_names=self.node_names,
            has_relay=self.has_relay,
            max_object_bytes=MAX_OBJECT_BYTES,
            parameters=self.parameters,
            clock=clock,
        )
        self.janitor = Janitor(
            keys=self.keys,
            digest=self.digest,
            nodes=self.nodes,
            executions=self.executions,
            instances=self.instances,
            pauses=self.pauses,
            key_lifecycle_arn=self.key_machine,
            redis_node_arn=self.node_machine,
            node_names=self.node_names,
            always_on=[],
            redis_control=lambda payload: self.invoke("redis_control", dict(payload)),
            clock=clock,
        )
        self.origin_changes = OriginChanges(
            keys=self.keys,
            nodes=self.nodes,
            node_names=self.node_names,
            digest=self.digest,
            redis_control=lambda payload: self.invoke("redis_control", dict(payload)),
            express=None,
            clock=clock,
        )
        self.cache_tools = CacheTools(
            keys=self.keys,
            nodes=self.nodes,
            executions=self.executions,
            objects=self.objects,
            pauses=self.pauses,
            max_object_bytes=MAX_OBJECT_BYTES,
            policy=self.policy,
            clock=clock,
            meter=METER,
            reports=self._bus,
        )
        self.meter = ReadMeter(clock)
        self.reader = self.new_reader()

    @property
    def judge(self) -> Judge:
        """What the scheduler function decides by."""
        runs = NodeRuns(self.nodes, self.executions, self.node_machine, self.clock, peers=self.node_names)
        return judge(self.policy, self.scheduler, self.uses, runs.boot)

    def new_reader(self, *, memory_bytes: int = 0, express: Tier | None = None) -> Reader:
        """Return a reader, whose work in the background is done at once."""
        return Reader(
            DigestReader(self.digest.read, self.clock, start=at_once),
            S3Tier(self.objects, self._bus, self.clock, max_object_bytes=MAX_OBJECT_BYTES),
            lambda route: express if express is not None and route == EXPRESS else self._tier(route),
            self.clock,
            has_express=express is not None,
            memory=Memory(memory_bytes, max_object_bytes=MAX_OBJECT_BYTES) if memory_bytes else None,
            start=at_once,
            fell_back=self.meter.fell_back,
        )

    def _tier(self, route: Route) -> Tier:
        if route.tier == "redis":
            store = self.stores[route.node]
            return RedisGuestTier(store, MAX_OBJECT_BYTES) if route.is_guest else RedisNodeTier(store)
        return LambdaTier(self.relay)  # type: ignore[arg-type]

    # the Lambda service

    def invoke(self, function: str, payload: dict[str, Any], *, request_id: str = "", remaining_s: float = 900) -> Any:
        """Return what a function's handler returns, or raise what it raises."""
        end_us = self.clock.now_us() + round(remaining_s * US_PER_S)
        context = SimpleNamespace(
            aws_request_id=request_id or str(uuid.uuid4()),
            get_remaining_time_in_millis=lambda: (end_us - self.clock.now_us()) // 1000,
        )
        if function == "cache":
            return self._hold_object(payload, context)
        handlers = {"scheduler": scheduler, "redis_control": redis_control, "origin": origin, "janitor": janitor}
        return handlers[function].handler(payload, context)

    def _hold_object(self, payload: dict[str, Any], context: Any) -> Any:
        """Run the cache function in an execution environment of its own."""
        environment = CacheEnvironment(self.cache_tools, self.relay.listener(), warm_copies(64 << 20))
        self._in_thread.environment = environment
        try:
            return cache.handler(payload, context)
        finally:
            environment.close()

    async def _invoke_from_task(self, arguments: dict[str, Any]) -> dict[str, Any]:
        function, payload = arguments["FunctionName"], arguments["Payload"]
        if function == "hold":
            self._tokens[payload["name"]].set_result(payload["token"])
            return {"StatusCode": 200, "Payload": {}}
        if arguments.get("InvocationType") == "Event":
            self._lives.append(self.clock.start(self.invoke, function, payload))
            return {"StatusCode": 202, "Payload": ""}
        try:
            return {"StatusCode": 200, "Payload": await asyncio.to_thread(self.invoke, function, payload)}
        except Exception as error:
            told = {"errorType": type(error).__name__, "errorMessage": str(error)}
            raise StateError(type(error).__name__, json.dumps(told)) from error

    # the EC2 service

    def _later(self, then: Callable[[str], None], parsed: dict[str, Any], **_: object) -> None:
        for change in parsed.get("StartingInstances", parsed.get("StoppingInstances", [])):
            self._lives.append(self.clock.start(then, self.instances.node_of(change["InstanceId"]) or ""))

    def _instance_boots(self, node: str) -> None:
        """Announce the node, as the unit on its instance does (`tests/template/test_redis_node.py`)."""
        self.clock.sleep(BOOT_S)
        if self.redis.is_up and self.instances.state(node) == "running":
            self.announce(node)

    def _instance_stops(self, node: str) -> None:
        self.clock.sleep(STOP_S)
        self.memories[node].empty()
        self.stopped(node)

    def announce(self, node: str = NODE) -> None:
        """Let the instance complete the task of the boot."""
        self.executions.succeed(self.nodes.read(node).boot_token, {})

    def stopped(self, node: str = NODE) -> Any:
        """Tell Redis control that the instance has stopped, as EC2's event does."""
        detail = {"instance-id": self.instances.instance_ids[node], "state": "stopped"}
        return self.invoke("redis_control", {"source": "aws.ec2", "detail": detail})

    # what a test does and sees

    def put_object(self, key: str, body: bytes = b"body") -> None:
        self.clients.s3.put_object(Bucket=BUCKET, Key=key, Body=body)

    def delete_object(self, key: str) -> None:
        self.clients.s3.delete_object(Bucket=BUCKET, Key=key)

    def executions_of(self, machine: str, status: Any = "RUNNING") -> list[str]:
        answer = self.states_client.list_executions(stateMachineArn=machine, statusFilter=status)
        return [execution["name"] for execution in answer["executions"]]

    def token(self, name: str) -> str:
        """Return a real token: the one of the execution of that name of a key or node, or of a new execution."""
        if not any(name in self.executions_of(machine) for machine in (self.key_machine, self.node_machine)):
            self.executions.start(self.token_machine, name, {})
        return self.clock.wait_for(self._tokens[name])

    def outcome(self, name: str) -> dict[str, Any]:
        """Wait for the end of the execution of that name; return its output, or its error."""
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

    def until(self, ask: Callable[[], T], within_s: float = 3600, every_s: float = 0.1) -> T:
        """Return the first true answer, asking again as the world's time passes."""
        give_up_us = self.clock.now_us() + round(within_s * US_PER_S)
        while not (answer := ask()):
            assert self.clock.now_us() < give_up_us, f"it did not happen within {within_s} s of the world's time"
            self.clock.sleep(every_s)
        return answer

    def row(self, key: str) -> KeyRow:
        row = self.keys.read(key_hash(key))
        assert row is not None
        return row

    def node(self) -> NodeRow:
        return self.nodes.read(NODE)

    # requests

    def read(self, key: str) -> str:
        """Read an object through the proxy, deliver what it reports, and return the tier that served."""
        answer = self.answer(key)
        assert answer["statusCode"] == 200, answer
        self.deliver()
        return str(answer["headers"]["x-cache-tier"])

    def answer(self, key: str) -> dict[str, Any]:
        """Return the proxy's answer to a GET."""
        context = {"http": {"method": "GET"}, "requestId": str(uuid.uuid4()), "stage": "$default"}
        event = {"version": "2.0", "rawPath": f"/objects/{key}", "headers": {}, "requestContext": context}
        return Proxy(self.reader, self.clock, self.meter).handle(event, None)

    def reported(self) -> list[RequestsServed]:
        """Return the batches that are reported and not yet delivered."""
        return [event for event in self._bus.events if "keys" in event]

    def deliver(self) -> None:
        """Deliver what the reader has reported."""
        while self._bus.events:
            detail = self._bus.events.pop(0)
            kind = REQUESTS_SERVED if "keys" in detail else OBJECT_REQUESTED
            self.invoke("scheduler", {"detail-type": kind, "detail": detail})

    def report(self, key: str, *, at_us: int | None = None, request_id: str = "", size_bytes: int = 4) -> str:
        """Report a GET that S3 served, as the proxy's event does; return what the scheduler made of it."""
        at_us = at_us or self.clock.now_us()
        detail = {
            "key": key,
            "at_us": at_us,
            "request_id": request_id or f"r{at_us}",
            "size_bytes": size_bytes,
            "etag": '"e"',
        }
        return str(self.invoke("scheduler", {"detail-type": "ObjectRequested", "detail": detail})["outcome"])

    def get_twice(self, key: str, *, late_s: float = 0, size_bytes: int = 4) -> list[str]:
        """Report two GETs within the threshold, `late_s` after they were made."""
        at_us = self.clock.now_us()
        self.clock.sleep(late_s)
        return [self.report(key, at_us=each_us, size_bytes=size_bytes) for each_us in (at_us - 1000, at_us)]

    def get(self, key: str) -> bytes | None:
        """Ask the process that holds the key in the Lambda tier, as the proxy does; None: nobody does."""
        at_us = self.clock.now_us()
        request = {"at_us": at_us, "request_id": f"g{at_us}", "method": "GET"}
        return self.relay.request(f"get.{key_hash(key)}", json.dumps(request).encode(), timeout_s=2)

    # steps of lives

    def started(self, key: str) -> KeyRow:
        """Make a key hot; return its row."""
        self.put_object(key)
        assert self.get_twice(key)[-1] == "started"
        return self.row(key)

    def key_step(self, op: str, key: str, **more: Any) -> Any:
        """Take a step of the key's life in Redis control."""
        row = self.row(key)
        payload = {"op": op, "key": key, "key_hash": row.hash, "epoch": row.epoch, "node": row.node or NODE}
        return self.invoke("redis_control", payload | more)

    def leave(self, key: str, *, is_failed: bool, failures: int = 0) -> Any:
        return self.key_step("leave", key, queue_us=[], is_failed=is_failed, failures=failures)

    def node_step(self, op: str, generation: int | None = None, **more: Any) -> Any:
        """Take a step of the node's run."""
        payload = {"op": op, "node": NODE, "generation": generation or self.node().generation}
        return self.invoke("redis_control", payload | more)

    def check(self, at_us: int | None = None) -> Any:
        """Run the node's check, by default at an instant at which every key is idle."""
        at_us = at_us or self.clock.now_us() + 2 * self.parameters.redis_utilization_us
        return self.node_step("check_node", part=self.node().part, check_at_us=str(at_us), checks=0)

    def boot(self) -> Any:
        """Let the node's run begin."""
        row = self.node()
        name = row.execution_name
        return self.node_step("boot_node", part=row.part, token=self.token(name), execution=name)

    def ready(self) -> Any:
        """Let the node's Redis answer."""
        return self.node_step("ready_node", part=self.node().part)

    def written(self, key: str) -> Any:
        """Tell the control plane of a write to the bucket, as S3's event does."""
        return self.invoke("origin", {"source": "aws.s3", "detail": {"object": {"key": key}}})

    def join(self, key: str) -> str:
        """Let a hot key join the node; return the name under which `outcome` finds its token."""
        name = f"join-{key_hash(key)}"
        self.key_step("join", key, token=self.token(name))
        return name

    def joined(self, key: str) -> str:
        """Make a key hot and let it join the node."""
        self.started(key)
        return self.join(key)

    def running(self, key: str) -> str:
        """Bring a key to Redis, the node booted for it or running; return the name of its running token."""
        waiter = self.joined(key)
        if self.node().phase == "booting":
            self.boot()
            self.ready()
        generation = self.node().generation
        assert self.outcome(waiter) == {"generation": generation}
        self.key_step("seed", key, generation=generation)
        name = f"run-{key_hash(key)}"
        lease = next(lease for lease in self.nodes.leases(NODE) if lease.hash == key_hash(key))
        self.nodes.change_lease(lease, LeaseColumns(running=self.token(name)), remove="waiter")
        return name

    def serve(self, key: str, *, holder: str = "one", attempt: int = 0, remaining_s: float = 900) -> Life:
        """Let a cache function hold a hot key."""
        row = self.row(key)
        token = self.token(row.execution_name)
        task = {"key": key, "key_hash": row.hash, "epoch": row.epoch, "attempt": attempt, "token": token}
        run = functools.partial(self.invoke, "cache", task, request_id=holder, remaining_s=remaining_s)
        self._lives.append(self.clock.start(run))
        return Life(self.clock, self._lives[-1])

    def clean(self) -> Any:
        """Run the janitor."""
        return self.invoke("janitor", {})


class Life:
    """A cache function under way."""

    def __init__(self, clock: VirtualClock, end: Future[Any]) -> None:
        self._clock, self._end = clock, end

    def join(self) -> str:
        """Wait for the end, and return how it ended."""
        return str(self._clock.wait_for(self._end)["end"])


def after(part: T, method: str, then: Callable[[], object]) -> T:
    """Return `part` with something else happening right after the first call of one of its methods."""
    return _Interrupted(part, method, then)  # type: ignore[return-value]


class _Interrupted:
    def __init__(self, part: object, method: str, then: Callable[[], object]) -> None:
        self._part, self._method, self._then = part, method, [then]

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._part, name)
        if name != self._method:
            return found

        def call(*args: Any, **kwargs: Any) -> Any:
            answer = found(*args, **kwargs)
            if self._then:
                self._then.pop()()
            return answer

        return call
