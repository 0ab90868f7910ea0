"""The stage of a history: the system on a virtual clock, with random latencies and faults.

Each call to S3, DynamoDB, Redis and the relay takes a random time on its way there or back, so that all operations
overlap in every way. Hours of the stack's time take seconds.
"""

from __future__ import annotations

import asyncio
import json
import random
import shutil
import tempfile
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
import redis
from moto.s3.responses import S3Response

from burstcache.access import RedisNode
from burstcache.adapters import digest_reader
from burstcache.adapters.clients import Clients
from burstcache.adapters.digest_table import DigestTable
from burstcache.adapters.executions import execution_arn
from burstcache.adapters.redis_objects import RedisObjects
from burstcache.core.backlog import Backlog
from burstcache.core.digest import prefix_of
from burstcache.core.errors import BurstcacheError, FunctionFailedError, RedisDownError, RelayDownError, ServiceError
from burstcache.core.express import express_rule
from burstcache.core.keys import key_hash
from burstcache.core.messages.operations import FollowWrite
from burstcache.core.node_kinds import NodeKind
from burstcache.core.policies import LivePolicy
from burstcache.core.prices import price_sheet
from burstcache.core.rows import KeyRow, NodeRow
from burstcache.handlers.proxy import Proxy
from burstcache.handlers.writer import FrontWriter
from burstcache.serve import hit_reports
from burstcache.serve.express_tier import ExpressTier
from burstcache.serve.reader import Reader
from burstcache.serve.writer import Writer
from consistency.history import Event
from consistency.programs import LARGE_ABOVE_BYTES, Program, open_disk, shrink
from support.aws import session
from support.event_queue import EventQueue
from support.express import URLS, make_copies
from support.functions import STOP_S
from support.memory_ecs import Task
from support.memory_relay import MemoryListener, MemoryRelay
from support.redis_in_process import ObjectsInProcess
from support.roles import acting, check
from support.virtual_time import VirtualClock
from support.world import World, event_of_write

_FOLLOWED = "InvocationEndsTransientError"
_BOOT_S = 6
_REDIS_ANSWERS_S = 3  # after StopInstances: the unit's ExecStop in the template
_EVENT_S = (0.02, 0.4)  # from a write in S3 to the origin function
_UPLOADS_SHARE = 0.02  # of the events, with which an upload begins
_UPLOADED, _UPLOADED_PER_S = (100, 600), 300  # objects
_FAILS_SHARE = 0.02  # of the batches
_CACHE_S = (72, 90)  # remaining time of a cache function invocation, which hands over 70 s before its end
_JANITOR_EVERY_S = 300
_REPORTED_EVERY_US = 50_000  # each report runs the scheduler
_REDIS_S, _RELAY_S, _SERVICE_S = 0.002, 0.003, 0.015  # greatest latency of a call one way
_STALLED_SHARE, _STALLED_S = 0.03, 0.4  # of S3's answers, so that loads overlap much later writes
_SOUND_S, _ILL_S = (5, 25), (2, 20)  # between outages, and during one
_NO_ANSWER_S = 0.5
_RELAY = "relay"
_ORDERS = "orders"  # writers alone do not reach the relay
_CACHE = "cache function"  # one is killed
_TWINS = "twins"  # a person starts running executions again
ILL = (_RELAY, _ORDERS, _CACHE, _TWINS)  # faults other than those of nodes
_TASK = "task"  # AWS interrupts one
_EC2 = "EC2"  # it refuses to start an instance
_REFUSED_SHARE = 0.15  # of node boots
_DIGEST_WRITES = ("announce", "mark_late", "remove_marks", "raise_fence", "show_key", "show_node", "remove_key")


class _Turns:
    """A lock whose waiters wait on the virtual clock, so that its holder may sleep there."""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock, self._lock = clock, threading.Lock()
        self._is_taken = False
        self._waiting: deque[Future[None]] = deque()

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()

    def acquire(self, *, timeout: float | None = None) -> bool:
        with self._lock:
            if not self._is_taken:
                self._is_taken = True
                return True
            turn: Future[None] = Future()
            self._waiting.append(turn)
        try:
            self._clock.wait_for(turn, timeout)
        except TimeoutError:
            with self._lock:
                if turn not in self._waiting:  # acquired in the same instant
                    return True
                self._waiting.remove(turn)
                return False
        return True

    def release(self) -> None:
        with self._lock:
            if not self._waiting:
                self._is_taken = False
                return
            turn = self._waiting.popleft()
        turn.set_result(None)


class _SlowObjects(ObjectsInProcess):
    """A node's Redis behind network latency; while frozen it keeps its contents."""

    def __init__(
        self,
        node: RedisNode,
        client: redis.Redis,
        taking: Callable[[float], AbstractContextManager[None]],
        answers: Callable[[str], bool],
    ) -> None:
        super().__init__(node, client)
        self._taking, self._answers = taking, answers

    @contextmanager
    def _connected(self) -> Iterator[redis.Redis]:
        with self._taking(_REDIS_S), super()._connected() as client:
            if not self._answers(self._node.name):
                raise RedisDownError(f"{self._node.name} is frozen")
            yield client


class _ListenerOnceItAnswers(MemoryListener):
    """A cache function's connection, which fails to open while the relay is frozen."""

    def __init__(self, relay: MemoryRelay, is_frozen: Callable[[], bool]) -> None:
        super().__init__(relay)
        self._is_frozen = is_frozen

    async def open(self) -> None:
        if self._is_frozen():
            await asyncio.sleep(_NO_ANSWER_S)
            raise RelayDownError("the relay is frozen")
        await super().open()


class Stage(World):
    """A stage: a world that runs by itself."""

    def __init__(
        self,
        patch: pytest.MonkeyPatch,
        *,
        policy: LivePolicy,
        seed: int,
        has_express: bool,
        has_faults: bool = False,
        has_queue: bool = False,
        only_ill: str = "",
        redis_on: NodeKind = "ec2",
    ) -> None:
        """Start with an empty bucket and both nodes off.

        Args:
            patch: Replaces locks of readers by locks on the virtual clock.
            policy: The stack's policy.
            seed: Seed of all random choices.
            has_express: Whether readers copy objects to a directory bucket.
            has_faults: Whether faults are injected.
            has_queue: Whether S3's events reach the origin function through the queue, in batches, and others come
                between them in uploads.
            only_ill: The only fault of `ILL` to inject; empty: all of them, and nodes.
            redis_on: What the nodes run on. Tasks on Fargate are interrupted, too.
        """
        self._has_faults, self._only_ill = has_faults, only_ill
        self._ill: set[str] = set()
        self.faults: Counter[str] = Counter()  # outages and kills by part
        self.events: list[Event] = []  # faults, digest writes and S3's events, in order
        self._keys_written: dict[str, str] = {}  # by the prefixes of their hashes in the digest
        self.draw = random.Random(seed)
        self._is_open = True
        self._reported_us: dict[str, int] = {}  # by key, the last report to the scheduler
        patch.setattr("support.functions.BOOT_S", _BOOT_S)
        shrink(patch)
        self._folder = tempfile.mkdtemp()
        super().__init__(patch, policy=policy, runs_machines=True, nodes=2, redis_on=redis_on)
        if self.tasks is not None:
            self.ecs.deliver = self._tell_of_task
        locks = SimpleNamespace(
            Lock=lambda: _Turns(self.clock), Thread=threading.Thread, main_thread=threading.main_thread
        )
        for module in (digest_reader, hit_reports):
            patch.setattr(module, "threading", locks)
        self._write_one_at_a_time(patch)
        self._slow_down(patch)
        for name in _DIGEST_WRITES:
            patch.setattr(DigestTable, name, self._noted(name, getattr(DigestTable, name)))
        self._make_express: Callable[[], ExpressTier] | None = self._open_express() if has_express else None
        self._queue = (
            EventQueue(self.clock, self.draw, start=self._start, invoke=self._follow_batch) if has_queue else None
        )
        self._is_uploading = False
        for node in self.node_names:
            self.memories[node].kill()
        self._lives.append(self.clock.start(self._clean_regularly))
        if has_faults:
            self._lives.append(self.clock.start(self._fail_now_and_then))

    def _write_one_at_a_time(self, patch: pytest.MonkeyPatch) -> None:
        """Make moto's conditional writes atomic, as S3's are."""
        turn, dispatch = threading.Lock(), S3Response.key_dispatch

        def in_turn(*arguments: Any) -> Any:
            with turn:
                return dispatch(*arguments)

        patch.setattr(S3Response, "key_dispatch", in_turn)

    # latencies

    def _slow_down(self, patch: pytest.MonkeyPatch) -> None:
        for name, parts in (("send_request", [_RELAY]), ("send_order", [_RELAY, _ORDERS])):
            patch.setattr(self.relay, name, self._slow(getattr(self.relay, name), _RELAY_S, parts))
        listener = partial(_ListenerOnceItAnswers, self.relay, lambda: _RELAY in self._ill)
        patch.setattr(self.relay, "listener", listener)
        self._slow_clients = [self.clients.s3, self.clients.dynamodb]
        for client in self._slow_clients:
            self._register(client)
        self.clients.s3.meta.events.register("after-call.s3.GetObject", self._stall, unique_id="stage stalls")

    def _make_store(self, node: RedisNode) -> RedisObjects:
        if node.is_task and not node.host:
            return super()._make_store(node)
        server = self.servers[node.host] if node.is_task else self.memories[node.name]
        return _SlowObjects(node, server.client, self._taking, self._answers)

    def _register(self, client: Any) -> None:
        for moment in ("before-call", "after-call"):
            client.meta.events.register(moment, self._service_takes_time, unique_id=f"stage {moment}")

    def _service_takes_time(self, **_: object) -> None:
        if self.draw.random() < 0.5:
            self._pause(_SERVICE_S)

    def _stall(self, **_: object) -> None:
        if self._is_open and self.draw.random() < _STALLED_SHARE:
            self.clock.sleep(_STALLED_S * self.draw.random())

    def _slow(self, call: Callable[..., Any], most_s: float, parts: Sequence[str]) -> Callable[..., Any]:
        def called(*arguments: Any, **named: Any) -> Any:
            with self._taking(most_s):
                if not all(map(self._answers, parts)):
                    raise RelayDownError("the relay is frozen")
                return call(*arguments, **named)

        return called

    def _answers(self, part: str) -> bool:
        """Return whether a part answers. If not, wait for the time-out first."""
        if part not in self._ill:
            return True
        self.clock.sleep(_NO_ANSWER_S)
        return False

    def _fail_now_and_then(self) -> None:
        at_once: dict[str, Callable[[], object]] = {
            _CACHE: partial(self.kill_cache, which=slice(1)),
            _TWINS: self._start_twins,
            _TASK: self._interrupt_task,
        }
        also = [] if self.tasks is None else [_TASK] * 3
        while self._is_open:
            self.clock.sleep(self.draw.uniform(*_SOUND_S))
            part = self.draw.choice([self._only_ill] if self._only_ill else [*ILL, *self.node_names, *also])
            self._note(f"fault: {part}")
            if part in at_once:
                at_once[part]()
            else:
                self._ill.add(part)
                self.clock.sleep(self.draw.uniform(*_ILL_S))
                self._ill.remove(part)
                self._note(f"fault over: {part}")
            self.faults[part] += 1

    def _start_twins(self) -> None:
        """Start executions with the input of running ones, as Step Functions' console offers to."""
        for machine in (self.key_machine, self.node_machine):
            for name in self.executions_of(machine):
                running = self.states_client.describe_execution(executionArn=execution_arn(machine, name))
                self.states_client.start_execution(stateMachineArn=machine, input=running["input"])

    def _refuse_now_and_then(self, node: str, execution: str) -> None:
        """Fail some boots, as if EC2 refused the instance; a twin's step does not reach EC2."""
        with acting("redis_control"):
            row = self.nodes.read(node)
        if row.execution_name == execution and row.phase == "booting" and self.draw.random() < _REFUSED_SHARE:
            self.faults[_EC2] += 1
            raise ServiceError("this account has no room for another instance", code="VcpuLimitExceeded")

    @contextmanager
    def _taking(self, most_s: float) -> Iterator[None]:
        """Add latency before or after a call: on its way there, or on its way back."""
        is_before = self.draw.random() < 0.5
        if is_before:
            self._pause(most_s)
        yield
        if not is_before:
            self._pause(most_s)

    def _pause(self, most_s: float) -> None:
        if self._is_open:
            self.clock.sleep(most_s * self.draw.random() ** 3)

    def _open_express(self) -> Callable[[], ExpressTier]:
        clients = Clients("control", session=session(), endpoint_urls=URLS)
        copies = make_copies(clients)
        self._slow_clients.append(clients.express)
        self._register(clients.express)
        self.origin_changes = replace(self.origin_changes, express=copies)
        rule = express_rule(price_sheet("today-us-east-1"), hit_value_usd=1e-6)
        return lambda: ExpressTier(copies, rule, self.clock, max_object_bytes=LARGE_ABOVE_BYTES)

    def close(self) -> None:
        """End faults and latencies, then close the world."""
        self._is_open = False
        self.clients.s3.meta.events.unregister("after-call.s3.GetObject", unique_id="stage stalls")
        for client in self._slow_clients:
            for moment in ("before-call", "after-call"):
                client.meta.events.unregister(moment, unique_id=f"stage {moment}")
        super().close()
        shutil.rmtree(self._folder)

    # Lambda and EC2

    def invoke(self, function: str, payload: dict[str, Any], *, request_id: str = "", remaining_s: float = 900) -> Any:
        """Run a function; cache functions have little time left, and some boots of nodes are refused."""
        if function == "cache":
            remaining_s = self.draw.uniform(*_CACHE_S)
        elif payload.get("op") == "boot_node" and self._has_faults:
            self._refuse_now_and_then(payload["node"], payload["execution"])
        return super().invoke(function, payload, request_id=request_id, remaining_s=remaining_s)

    def _instance_boots(self, node: str) -> None:
        self.memories[node].start()
        self.clock.sleep(_BOOT_S)
        if self.machine_state(node) == "running" and node not in self._ill:
            self.announce(node)

    def _instance_stops(self, node: str) -> None:
        self.clock.sleep(_REDIS_ANSWERS_S)
        self.memories[node].empty()
        self.memories[node].kill()
        self.clock.sleep(STOP_S - _REDIS_ANSWERS_S)
        self.stopped(node)

    def _interrupt_task(self) -> None:
        """Give notice of a task's end, which comes soon."""
        if running := [task for task in self.ecs.running() if task.shown["lastStatus"] == "RUNNING"]:
            self.ecs.interrupt(self.draw.choice(running))

    def _task_boots(self, task: Task) -> None:
        def boot() -> None:
            self.clock.sleep(_BOOT_S)
            if task.shown["desiredStatus"] == "RUNNING":
                self.ecs.run(task)

        self._lives.append(self.clock.start(boot))

    def _task_ends(self, task: Task, after_s: float = STOP_S) -> None:
        def end() -> None:
            self.clock.sleep(_REDIS_ANSWERS_S)
            self.servers[task.host].kill()
            self.clock.sleep(after_s - _REDIS_ANSWERS_S)
            self.ecs.end(task)

        self._lives.append(self.clock.start(end))

    def _task_is_interrupted(self, task: Task) -> None:
        self._task_ends(task)

    def _tell_of_task(self, detail: dict[str, Any]) -> None:
        """Deliver ECS's event at least once, now and then twice, and again if it fails."""

        def follow() -> None:
            for again_after_s in (60, 120, 0):  # as Lambda does
                with suppress(BurstcacheError):
                    self.task_changed(detail)
                    return
                self.clock.sleep(again_after_s)

        for _ in range(1 + (self.draw.random() < 0.2)):
            self._after_a_while(follow, most_s=_EVENT_S[1])

    def _clean_regularly(self) -> None:
        while self._is_open:
            self.clock.sleep(_JANITOR_EVERY_S)
            self.clean()

    def deliver(self) -> None:
        """Deliver the readers' reports to the scheduler with a delay; of frequent reports of a key only some."""
        events, self._bus.events = self._bus.events, []
        for detail in events:
            kind = "RequestsServed" if "keys" in detail else "ObjectRequested"
            if "key" in detail:
                if self.clock.now_us() - self._reported_us.get(detail["key"], 0) < _REPORTED_EVERY_US:
                    continue
                self._reported_us[detail["key"]] = self.clock.now_us()
            self._after_a_while(self.invoke, "scheduler", {"detail-type": kind, "detail": detail}, most_s=0.1)

    def _tell_of_write(self, key: str) -> None:
        """Deliver S3's event at least once: now and then twice."""
        self._keys_written[prefix_of(key_hash(key))] = key
        for _ in range(1 + (self.draw.random() < 0.05)):
            if self._queue is None:
                self._after_a_while(self._follow, key, most_s=_EVENT_S[1])
            else:
                self._after_a_while(self._queue.send, event_of_write(key), most_s=_EVENT_S[1])
        if self._queue is not None and not self._is_uploading and self.draw.random() < _UPLOADS_SHARE:
            self._start(self._upload, self._queue)

    def _upload(self, queue: EventQueue) -> None:
        """Send the events of many objects that nobody reads, faster than the origin function follows them."""
        self._is_uploading = True
        self._note("an upload begins")
        queue.counts["uploads"] += 1
        for number in range(self.draw.randint(*_UPLOADED)):
            queue.send(event_of_write(f"uploaded-{number}"))
            self.clock.sleep(1 / _UPLOADED_PER_S)
        self._note("an upload ends")
        self._is_uploading = False

    def _follow_batch(self, batch: dict[str, Any]) -> None:
        """Invoke the origin function with a batch. Now and then it fails once it has followed all events."""
        keys = {json.loads(record["body"])["detail"]["object"]["key"] for record in batch["Records"]}
        mine = sorted(keys & {*self._keys_written.values()})
        for key in mine:
            self._note(f"S3's event, in a batch of {len(batch['Records'])}", key)
        self.invoke("origin", batch)
        for key in mine:
            self._note("S3's event is followed", key)
        if self.draw.random() < _FAILS_SHARE:
            self._note("a batch fails at its end")
            raise FunctionFailedError("timed out at its end")

    def _follow(self, key: str) -> None:
        for again_after_s in (60, 120, 0):  # as Lambda does
            self._note("S3's event", key)
            try:
                self.written(key)
                self._note("S3's event is followed", key)
                return
            except Exception as error:
                self._note(f"S3's event fails: {error!r}", key)
                if not again_after_s:
                    raise
                self.clock.sleep(again_after_s)

    def _after_a_while(self, work: Callable[..., object], *arguments: Any, most_s: float) -> None:
        def run() -> None:
            self.clock.sleep(self.draw.uniform(_EVENT_S[0], most_s))
            work(*arguments)

        self._start(run)

    def _start(self, work: Callable[..., Any], *arguments: Any) -> None:
        self._lives.append(self.clock.start(work, *arguments))

    # readers and writers

    def open_front(self, *, memory_bytes: int) -> Proxy:
        """Return a proxy environment."""
        return Proxy(self._open_reader(memory_bytes=memory_bytes), self.clock, self.meter)

    def open_front_writer(self) -> FrontWriter:
        """Return a writer function environment, which has no reader's memory."""

        def drop_copies(payload: FollowWrite) -> object:
            check("lambda", "Invoke", {"FunctionName": "origin"})
            return self._drop_copies(payload)

        return FrontWriter(Writer(self.objects, "", drop_copies, lambda _: None))

    def open_client(self, *, memory_bytes: int) -> Reader:
        """Return a reader in a program's process, with background work."""
        return self._open_reader(memory_bytes=memory_bytes, start=self.clock.start)

    def open_program(self, name: str, *, memory_bytes: int, has_disk: bool) -> Program:
        """Return a program that reads objects of any size, in slices."""
        open_reader = partial(self._open_reader, memory_bytes=memory_bytes, start=self.clock.start, in_slices=True)
        disk = open_disk(f"{self._folder}/slices", self.clock) if has_disk else None
        return Program(name, open_reader, self.objects, disk, self.clock, self.draw)

    def _open_reader(self, **options: Any) -> Reader:
        return self.new_reader(express=None if self._make_express is None else self._make_express(), **options)

    def write(self, key: str, body: bytes | None) -> None:
        """Write or delete an object straight in the bucket."""
        if body is None:
            self.delete_object(key)
        else:
            self.put_object(key, body)
        self._tell_of_write(key)

    def open_writer(self, reader: Reader | Program) -> Writer:
        """Return a writer in a reader's process, as the client library has it; S3 sends its events too."""
        return Writer(self.objects, "", self._drop_copies, reader.forget)

    def _drop_copies(self, payload: FollowWrite) -> object:
        self._tell_of_write(payload["key"])
        try:
            with self._taking(_SERVICE_S):
                return self.invoke("origin", {**payload})
        except BurstcacheError as error:  # as the Lambda service reports it
            raise FunctionFailedError(f"origin failed: {error}") from error

    # events

    def _note(self, what: str, key: str = "") -> None:
        self.events.append(Event(self.clock.now_us(), what, key))

    def _noted(self, name: str, write: Callable[..., Any]) -> Callable[..., Any]:
        """Return a digest write that is also recorded as an event."""

        def noted(digest: DigestTable, *arguments: Any, **named: Any) -> Any:
            answer = write(digest, *arguments, **named)
            match arguments:
                case [KeyRow() as row]:
                    self._note(f"{name}: {row.phase}, {row.tier or 's3'}", row.key)
                case [NodeRow() as node]:
                    self._note(f"{name}: {node.node}, {node.phase}")
                case [str() as hash_, *_]:
                    self._note(name, self._keys_written.get(prefix_of(hash_), ""))
                case _:
                    self._note(f"{name}{_shown(named.get('backlog'))}")
            return answer

        return noted

    def passed(self) -> Counter[str]:
        """Return counts of entered states, hand-overs of cache functions, and faults by part."""
        counts = Counter({f"fault: {part}": times for part, times in self.faults.items()})
        if self._queue is not None:
            counts += Counter({f"queue: {what}": times for what, times in self._queue.counts.items()})
        for of_machine, machine in (("key_lifecycle", self.key_machine), ("redis_node", self.node_machine)):
            listed = self.states_client.get_paginator("list_executions").paginate(stateMachineArn=machine)
            for name in [execution["name"] for page in listed for execution in page["executions"]]:
                pages = self.states_client.get_paginator("get_execution_history").paginate(
                    executionArn=execution_arn(machine, name)
                )
                for event in (event for page in pages for event in page["events"]):
                    if event["type"].endswith("StateEntered"):
                        counts[f"{of_machine}: {event['stateEnteredEventDetails']['name']}"] += 1
                    elif event["type"] == "TaskFailed" and event["taskFailedEventDetails"].get("error") == _FOLLOWED:
                        counts["hand-over"] += 1
        return counts


def _shown(backlog: Backlog | None) -> str:
    """Return the wait that an announcement tells, as text."""
    if backlog is None:
        return ""
    return f": an event waits for {backlog.age_s(backlog.seen_at_us):.3f} s" if backlog.since_us else ": none waits"
