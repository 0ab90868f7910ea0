"""Lambda functions and EC2 on a virtual clock: the deployed handlers, their dependencies, and a node's instances."""

from __future__ import annotations

import asyncio
import functools
import threading
import uuid
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest

from burstcache.access import RedisAccess, RedisNode, RelayAccess, TaskPlace, instance_ids, node_named
from burstcache.adapters.billed import Billed
from burstcache.adapters.digest_reader import DigestReader, Start, at_once
from burstcache.adapters.digest_table import DigestTable
from burstcache.adapters.event_publisher import EventPublisher
from burstcache.adapters.hot_keys import HotKeys
from burstcache.adapters.instances import Instances
from burstcache.adapters.key_table import KeyTable
from burstcache.adapters.machines import NodeMachines
from burstcache.adapters.node_stores import NodeStores
from burstcache.adapters.node_table import NodeTable
from burstcache.adapters.object_store import ObjectStore
from burstcache.adapters.pause_switch import PauseSwitch
from burstcache.adapters.pool_table import PoolTable
from burstcache.adapters.redis_objects import RedisObjects
from burstcache.adapters.relay_requests import RelayRequests
from burstcache.adapters.secrets import Secrets
from burstcache.adapters.tasks import Tasks
from burstcache.adapters.use_table import UseTable
from burstcache.control import pool_rounds
from burstcache.control.cache_environment import CacheEnvironment, warm_copies
from burstcache.control.cache_tools import CacheTools
from burstcache.control.janitor import Janitor
from burstcache.control.node_runs import NodeRuns
from burstcache.control.operations import RedisControl
from burstcache.control.origin_changes import OriginChanges
from burstcache.control.pool_tools import PoolTools
from burstcache.control.scheduler import Scheduler
from burstcache.control.state_leases import StateLeases
from burstcache.control.use_scheduler import ReportScheduler, report_scheduler
from burstcache.core.databases import node_of_database
from burstcache.core.digest import Route
from burstcache.core.messages.events import LAMBDA, ObjectRequested, RequestsServed
from burstcache.core.messages.operations import Serve
from burstcache.core.node_kinds import NodeKind
from burstcache.core.parameters import US_PER_S, parameters_from_text
from burstcache.core.policies import LivePolicy, thesis
from burstcache.core.pool.costs import member_price
from burstcache.core.pool.redundancy import UpkeepChoice, choose
from burstcache.core.pool.retention import tenants
from burstcache.core.worth import sheet_of_region
from burstcache.handlers import cache, janitor, origin, pool_control, redis_control, scheduler, state
from burstcache.serve.cache_function_tier import LambdaTier
from burstcache.serve.local_cache import MAX_STALE_S
from burstcache.serve.memory_tier import HeadCache, MemoryTier
from burstcache.serve.read_meter import ReadMeter
from burstcache.serve.reader import EXPRESS, Reader
from burstcache.serve.redis_tier import RedisGuestTier, RedisNodeTier
from burstcache.serve.s3_tier import S3Tier
from burstcache.serve.tier import Tier
from support.aws import BUCKET, REGION, TABLE, is_on, make_instance
from support.machines import Machines
from support.memory_ecs import END_S, NOTICE_S, MemoryEcs, Task
from support.memory_relay import MemoryRelay
from support.metrics import METER, SPOT_METER
from support.pool_members import PoolMembers
from support.redis_in_process import NO_SECRETS, NodeRedis, ObjectsInProcess
from support.roles import CLUSTER, FAMILY, STATE_FAMILY, acting, check

NODE = "node-1"
MAX_OBJECT_BYTES = 4 << 20
_HEADS_BYTES = 1 << 20
BOOT_S, STOP_S = 0.5, 10  # of an instance
_RECORD_S = 1  # until the scheduler receives the record of a failed invocation
GRACE_S, SAVE_CHECK_S = 60, 10  # of a database of state
POOL_MEMBERS, KEEP_S = 16, 1_200


class ProcessKilledError(Exception):
    """Death of a function's process."""


class _HostLostError(Exception):
    """Loss of a function's host, which nothing notices."""


class _Bus(EventPublisher):
    """Event bus that queues the proxy's reports until a test delivers them."""

    def __init__(self) -> None:
        self.events: list[ObjectRequested | RequestsServed] = []

    def start(self, *events: ObjectRequested | RequestsServed) -> None:
        self.events += events

    def finish(self, report: object, **_: object) -> None:
        pass

    def close(self) -> None:
        pass


# By measurements. Worlds are much alike, and comparing all redundancy choices is most of a pool round's time.
_CHOICES: dict[str, UpkeepChoice] = {}


def _chosen_once(*measured: Any, **present: Any) -> UpkeepChoice:
    """Choose as a pool round does, with a cache of earlier choices."""
    arguments = repr((measured, present))
    if arguments not in _CHOICES:
        _CHOICES[arguments] = choose(*measured, **present)
    return _CHOICES[arguments]


class Functions(Machines):
    """The functions on one table, one bucket and, by default, one node."""

    def __init__(
        self,
        patch: pytest.MonkeyPatch,
        *,
        runs_machines: bool = False,
        has_relay: bool = True,
        policy: LivePolicy | None = None,
        nodes: int = 1,
        databases: Sequence[str] = (),
        redis_on: NodeKind = "ec2",
        state_on: NodeKind = "ec2",
    ) -> None:
        self.redis_on, self.state_on = redis_on, state_on
        self.state_names = [node_of_database(database) for database in databases]
        self.saves_state = True  # the instance completes the save task a second later
        self.node_names = [f"node-{number}" for number in range(1, nodes + 1)]
        super().__init__(runs=runs_machines)
        self.has_relay, self.relay = has_relay, MemoryRelay(self.clock)
        self.servers = defaultdict[str, NodeRedis](NodeRedis)  # of tasks, by address
        self.policy = policy or thesis(parameters_from_text(rate="9", sensitivity="4"))
        self.parameters = self.policy.parameters
        self._in_thread = threading.local()
        self._environments: list[CacheEnvironment] = []
        self._dying = threading.Lock()
        self._dies_of: Exception = ProcessKilledError("signal: killed")
        self._make_parts()
        self._runs_machines = runs_machines
        if runs_machines:
            self.ecs.started = self._task_boots
            self.ecs.stopped, self.ecs.interrupted = self._task_ends, self._task_is_interrupted
            self.can_save = True
            for call, then in (("StartInstances", self._instance_boots), ("StopInstances", self._instance_stops)):
                event = f"after-call.ec2.{call}"
                self.clients.ec2.meta.events.register(event, functools.partial(self._later, then), f"world {call}")
        for handler, maker, part in (
            (scheduler, "scheduler", "report_scheduler"),
            (redis_control, "control", "control"),
            (origin, "changes", "origin_changes"),
            (janitor, "janitor", "janitor"),
            (state, "leases", "state_leases"),
            (pool_control, "tools", "pool"),
        ):
            patch.setattr(handler, maker, functools.partial(getattr, self, part))
        patch.setattr(pool_rounds, "choose", _chosen_once)
        patch.setattr(cache, "environment", lambda: self._in_thread.environment)

    def close(self) -> None:
        """Unsubscribe from EC2's calls, then wait until everything has ended."""
        if self._runs_machines:
            for call in ("StartInstances", "StopInstances"):
                self.clients.ec2.meta.events.unregister(f"after-call.ec2.{call}", unique_id=f"world {call}")
        super().close()

    def _make_parts(self) -> None:
        nodes = [_node(name, self.redis_on) for name in self.node_names]
        state_nodes = [_node(name, self.state_on) for name in self.state_names]
        aws, clock = self.clients, self.clock
        self.keys, self.nodes = KeyTable(TABLE, aws.dynamodb, clock), NodeTable(TABLE, aws.dynamodb, clock)
        self.digest = DigestTable(TABLE, aws.dynamodb)
        self.objects = ObjectStore(BUCKET, aws.s3)
        self.memories = {node.name: NodeRedis() for node in [*nodes, *state_nodes]}
        self._nodes, self._store_of = nodes, NodeStores(tuple(nodes), self.nodes, self._make_store)
        self.instances = Instances(instance_ids((*nodes, *state_nodes)), aws.ec2)
        self.ecs = MemoryEcs(clock, deliver=self.task_changed)
        self.tasks = self._tasks(self.redis_on, FAMILY)
        self.state_tasks = self._tasks(self.state_on, STATE_FAMILY)
        self.machines = NodeMachines(self.instances, self.tasks, self.state_tasks)
        self.uses, self._bus = UseTable(TABLE, aws.dynamodb, clock), _Bus()
        self.pauses = PauseSwitch(TABLE, aws.dynamodb, clock)
        self.control = RedisControl(
            node_names=self.node_names,
            state_names=self.state_names,
            saves_state=self.saves_state,
            always_on=[],
            uses=self.uses,
            nodes=self.nodes,
            keys=self.keys,
            digest=self.digest,
            executions=self.executions,
            machines=self.machines,
            pauses=self.pauses,
            objects=self.objects,
            relay=self.relay if self.has_relay else RelayRequests(RelayAccess(""), Secrets(aws.secrets), clock),
            store=self._store_of,
            machine_arn=self.node_machine,
            max_object_bytes=MAX_OBJECT_BYTES,
            policy=self.policy,
            clock=clock,
            meter=SPOT_METER if self.redis_on == "fargate-spot" else METER,
            state_meter=METER if self.state_on == "ec2" else SPOT_METER,
        )
        self.state_leases = StateLeases(
            node_names=self.state_names,
            nodes=self.nodes,
            runs=NodeRuns(self.nodes, self.executions, self.node_machine, clock),
            executions=self.executions,
            pauses=self.pauses,
            grace_s=GRACE_S,
            clock=clock,
        )
        self.scheduler = Scheduler(
            keys=self.keys,
            nodes=self.nodes,
            hot_keys=HotKeys(self.keys, 3, aws.dynamodb, clock),
            pauses=self.pauses,
            executions=self.executions,
            start_cache=self._start_cache,
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
            machines=self.machines,
            pauses=self.pauses,
            key_lifecycle_arn=self.key_machine,
            redis_node_arn=self.node_machine,
            node_names=[*self.node_names, *self.state_names],
            always_on=[],
            redis_control=self._invoke_control,
            clock=clock,
        )
        self.origin_changes = OriginChanges(
            keys=self.keys,
            nodes=self.nodes,
            node_names=self.node_names,
            digest=self.digest,
            redis_control=self._invoke_control,
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
        self.members = PoolMembers(clock)
        self.pool = PoolTools(
            table=PoolTable(TABLE, aws.dynamodb),
            executions=self.executions,
            machine_arn=self.pool_machine,
            pauses=self.pauses,
            members=tuple(tenants(POOL_MEMBERS)),
            price=member_price(sheet_of_region(REGION), 1_769),
            keep_s=KEEP_S,
            hubs=None,
            warm=self.members.warm,
            clock=clock,
            billed=Billed(clock),
        )
        self.meter = ReadMeter(clock)
        self.reader = self.new_reader()

    def _tasks(self, kind: NodeKind, family: str) -> Tasks | None:
        if kind == "ec2":
            return None
        subnets, has_state = ("subnet-1", "subnet-2"), family == STATE_FAMILY
        place = TaskPlace(kind, CLUSTER, family, subnets, ("sg-1",), "ENABLED", has_state)
        return Tasks(place, self.ecs, self.clock)

    @property
    def redis(self) -> NodeRedis:
        """The Redis of the first node. A node that runs as a task has another one in each run."""
        return self.memories[NODE] if self.tasks is None else self.servers[self.nodes.read(NODE).host]

    @property
    def store(self) -> ObjectsInProcess:
        """The objects in the Redis of the first node, which has run if it runs as a task."""
        store = self._store_of(NODE)
        assert isinstance(store, ObjectsInProcess)
        return store

    def _store_at(self, route: Route) -> RedisObjects:
        if not route.host:
            return self._store_of(route.node)
        return self._make_store(node_named(route.node, tuple(self._nodes), host=route.host))

    def _make_store(self, node: RedisNode) -> RedisObjects:
        if not node.is_task:
            return ObjectsInProcess(node, self.memories[node.name].client)
        if not node.host:
            return RedisObjects(node, NO_SECRETS, RedisAccess())  # each operation raises RedisDownError
        return ObjectsInProcess(node, self.servers[node.host].client)

    @property
    def report_scheduler(self) -> ReportScheduler:
        """The scheduler of the scheduler function."""
        runs = NodeRuns(self.nodes, self.executions, self.node_machine, self.clock, peers=self.node_names)
        return report_scheduler(self.policy, self.scheduler, self.uses, runs.boot)

    def new_reader(
        self,
        *,
        memory_bytes: int = 0,
        express: Tier | None = None,
        start: Start = at_once,
        in_slices: bool = False,
    ) -> Reader:
        """Return a reader. By default it does its background work at once.

        Args:
            memory_bytes: Size of its memory [bytes].
            express: Its S3 Express.
            start: Runs its background work.
            in_slices: Whether its caller reads objects above the size limit in slices.
        """
        digest = DigestReader(self.digest.read, self.clock, max_backlog_s=MAX_STALE_S, start=start)
        return Reader(
            digest,
            S3Tier(
                self.objects,
                self._bus,
                self.clock,
                max_object_bytes=MAX_OBJECT_BYTES,
                larger="leave" if in_slices else "redirect",
                most_body_bytes=2 * MAX_OBJECT_BYTES if in_slices else 0,
            ),
            lambda route: express if express is not None and route == EXPRESS else self._tier(route, digest),
            self.clock,
            has_express=express is not None,
            memory=MemoryTier(memory_bytes, max_object_bytes=MAX_OBJECT_BYTES) if memory_bytes else None,
            heads=HeadCache(_HEADS_BYTES, above_bytes=MAX_OBJECT_BYTES) if in_slices else None,
            counts_memory_hits=not self.policy.takes_guests,
            start=start,
            fell_back=self.meter.fell_back,
        )

    def _tier(self, route: Route, digest: DigestReader) -> Tier:
        if route.tier == "redis":
            store = self._store_at(route)
            return RedisGuestTier(store, MAX_OBJECT_BYTES) if route.is_guest else RedisNodeTier(store)
        return LambdaTier(self.relay, fence_us=lambda: digest.fence_us)  # type: ignore[arg-type]

    # the Lambda service

    def invoke(self, function: str, payload: dict[str, Any], *, request_id: str = "", remaining_s: float = 900) -> Any:
        """Invoke a function's handler and return its result or propagate its error."""
        end_us = self.clock.now_us() + round(remaining_s * US_PER_S)
        context = SimpleNamespace(
            aws_request_id=request_id or str(uuid.uuid4()),
            get_remaining_time_in_millis=lambda: (end_us - self.clock.now_us()) // 1000,
        )
        with acting(function):
            return self._handle(function, payload, context)

    def _handle(self, function: str, payload: dict[str, Any], context: Any) -> Any:
        handlers = {
            "scheduler": scheduler,
            "redis_control": redis_control,
            "origin": origin,
            "janitor": janitor,
            "pool_control": pool_control,
            "state": state,
        }
        if function == "cache":
            return self._hold_object(payload, context)
        return handlers[function].handler(payload, context)

    def _start_cache(self, payload: Serve) -> None:
        self._lives.append(self.clock.start(self.invoke_event, "cache", {**payload}))

    def invoke_event(self, function: str, payload: dict[str, Any]) -> None:
        """Invoke a function asynchronously. The scheduler receives Lambda's record of a failed cache function."""
        try:
            self.invoke(function, payload)
        except Exception as error:
            if not isinstance(error, _HostLostError):
                self.clock.sleep(_RECORD_S)
                self.report_failure(payload, error)

    def report_failure(self, payload: dict[str, Any], error: Exception) -> None:
        """Deliver Lambda's record of a failed invocation of the cache function."""
        response = {"errorType": type(error).__name__, "errorMessage": str(error)}
        detail = {"requestPayload": payload, "responsePayload": response}
        self.invoke("scheduler", {"source": LAMBDA, "detail-type": "", "detail": detail})

    def running_caches(self) -> list[CacheEnvironment]:
        """Return the processes of the cache function that hold an object or are loading it."""
        return [*self._environments]

    def kill_cache(self, *, host: bool = False, which: slice = slice(None)) -> None:
        """Kill the processes of the cache function that `which` selects, oldest first. With `host`, nothing notices."""
        self._dies_of = _HostLostError() if host else ProcessKilledError("signal: killed")
        with self._dying:
            for environment in self._environments[which]:
                environment._loop.call_soon_threadsafe(_cancel_all)
        self.clock.sleep(0.001)

    def _hold_object(self, payload: dict[str, Any], context: Any) -> Any:
        """Run the cache function in a new execution environment."""
        environment = CacheEnvironment(self.cache_tools, self.relay.listener(), warm_copies(64 << 20))
        self._in_thread.environment = environment
        self._environments.append(environment)
        try:
            return cache.handler(payload, context)
        except asyncio.CancelledError:
            raise self._dies_of from None
        finally:
            with self._dying:
                self._environments.remove(environment)
            with suppress(asyncio.CancelledError):  # killed after the handler returned, which nobody notices
                environment._loop.run_until_complete(asyncio.sleep(0))
            environment.close()

    def _invoke_control(self, payload: Mapping[str, Any]) -> Any:
        """Invoke Redis control from another function, whose role must permit it."""
        check("lambda", "Invoke", {"FunctionName": "redis_control"})
        return self.invoke("redis_control", dict(payload))

    # the ECS service

    def task_changed(self, detail: dict[str, Any]) -> Any:
        """Notify Redis control of a task's change, as ECS's event does."""
        event = {"source": "aws.ecs", "detail-type": "ECS Task State Change", "detail": detail}
        return self.invoke("redis_control", event)

    def end_task(self, task: Task) -> Any:
        """End a task together with its Redis."""
        self.servers[task.host].kill()
        return self.ecs.end(task)

    def _task_boots(self, task: Task) -> None:
        def boot() -> None:
            self.clock.sleep(BOOT_S)
            if task.shown["desiredStatus"] == "RUNNING":
                self.ecs.run(task)
            if task.node in self.state_names:
                self._keep(task.node, lambda: task.shown["lastStatus"] == "RUNNING")

        self._lives.append(self.clock.start(boot))

    def _task_ends(self, task: Task, after_s: float = END_S) -> None:
        def end() -> None:
            self.clock.sleep(after_s)
            if task.shown["lastStatus"] != "STOPPED":
                self.end_task(task)

        self._lives.append(self.clock.start(end))

    def _task_is_interrupted(self, task: Task) -> None:
        self._task_ends(task, NOTICE_S)

    # the EC2 service

    def _later(self, then: Callable[[str], None], parsed: dict[str, Any], **_: object) -> None:
        for change in parsed.get("StartingInstances", parsed.get("StoppingInstances", [])):
            self._lives.append(self.clock.start(then, self.instances.node_of(change["InstanceId"]) or ""))

    def _instance_boots(self, node: str) -> None:
        """Run the node's program, as the systemd unit on its instance does (`tests/template/test_redis_node.py`)."""
        self.clock.sleep(BOOT_S)
        self._keep(node, lambda: is_on(self.instances.instance_ids[node]))

    def _keep(self, node: str, runs: Callable[[], bool]) -> None:
        """Announce the node. Then save a database and complete the save task on request, until the machine ends."""
        if self.redis.is_up and runs():
            self.announce(node)
        if node not in self.state_names:
            return
        saved_token = self.nodes.read(node).save_token
        while runs():
            if (token := self.nodes.read(node).save_token) != saved_token and self.can_save:
                self.executions.succeed(token, {})
                saved_token = token
            self.clock.sleep(SAVE_CHECK_S)

    def _instance_stops(self, node: str) -> None:
        self.clock.sleep(STOP_S)
        self.memories[node].empty()
        self.stopped(node)

    def machine_state(self, node: str = NODE) -> str:
        """Return the state of the machine that a node runs on."""
        return self.machines(node).state(self.nodes.read(node))

    def stop_machine(self, node: str = NODE) -> None:
        """Stop the machine that a node runs on, although nothing of the stack asked for it."""
        row = self.nodes.read(node)
        if isinstance(self.machines(node), Instances):
            self.instances.stop(row)
        else:
            self.ecs.task(row.task).shown["lastStatus"] = "STOPPED"

    def announce(self, node: str = NODE) -> None:
        """Complete the boot task, as the instance does."""
        self.executions.succeed(self.nodes.read(node).boot_token, {})

    def stopped(self, node: str = NODE) -> Any:
        """Notify Redis control that the machine has stopped, as the event of EC2 or ECS does."""
        if isinstance(self.machines(node), Tasks):
            return self.end_task(self.ecs.task(self.nodes.read(node).task))
        detail = {"instance-id": self.instances.instance_ids[node], "state": "stopped"}
        return self.invoke("redis_control", {"source": "aws.ec2", "detail": detail})


def _node(name: str, kind: NodeKind) -> RedisNode:
    return RedisNode(name, make_instance(), "127.0.0.1", 6379) if kind == "ec2" else RedisNode(name, "", "", 6379)


def _cancel_all() -> None:
    """Cancel all tasks of the running loop."""
    for task in asyncio.all_tasks():
        task.cancel()
