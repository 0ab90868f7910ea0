"""No reader gets what is older than the last write that was answered, whatever happens to a key meanwhile.

The deployed functions and machines run on the virtual clock. Readers, writers, S3's events, cache functions that
overlap or die, a relay and a Redis that stop do as they like. Writes also come in the middle of steps: after S3,
DynamoDB or Redis has done what a function asked for, and before that function knows.
"""

from __future__ import annotations

import base64
import threading
from collections.abc import Callable
from contextlib import ExitStack, suppress
from contextvars import Context
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from burstcache.adapters.key_table import KeyTable
from burstcache.adapters.object_store import ObjectResponse, ObjectStore, Written
from burstcache.adapters.redis_objects import RedisObjects
from burstcache.core.errors import BurstcacheError
from burstcache.core.node_kinds import NodeKind
from burstcache.core.policies import LivePolicy
from burstcache.serve.reader import Reader
from support.aws import mocked_aws
from support.functions import ProcessKilledError
from support.policies import policy_named
from support.searches import search
from support.world import World

pytestmark = pytest.mark.slow

_KEYS = st.sampled_from(["a", "b"])
_READERS = st.sampled_from([0, 1])
_TIMES_S = st.sampled_from([0.001, 0.02, 0.3, 1.0, 2.1, 8.0, 16.0, 61.0])
# Where something may come between, after the call: S3 has answered, a row is written, Redis has a lease or a copy.
_STEPS: dict[str, tuple[type, str]] = {
    "load": (ObjectStore, "fetch"),
    "confirmation": (ObjectStore, "fetch_if_newer"),
    "read": (ObjectStore, "get"),
    "row": (KeyTable, "update"),
    "lease": (RedisObjects, "take_lease"),
    "copy": (RedisObjects, "put"),
    "guest": (RedisObjects, "store_guest"),
}
_TAKES_S = {"load": 0.03, "confirmation": 0.03}  # S3's answer is on its way


class _NumberedObjects:
    """S3 for one write, which brings its number."""

    def __init__(self, writes: Writes) -> None:
        self._writes = writes
        self.version = 0

    def put(self, key: str, _: bytes, **conditions: Any) -> Written:
        put = partial(self._writes.world.objects.put, **conditions)
        written, self.version = self._writes._put_numbered(key, put)
        return written


class Writes(RuleBasedStateMachine):
    """One stack, two readers without memories, two keys; each body is the number of its write."""

    policy: LivePolicy | None = None  # the thesis's
    redis_on: NodeKind = "ec2"

    def __init__(self) -> None:
        super().__init__()
        with ExitStack() as making:  # whatever fails, later tests find neither this AWS nor these patches
            making.enter_context(mocked_aws())
            self._patch = making.enter_context(pytest.MonkeyPatch.context())
            self._make_stack(making)
            self._made = making.pop_all()

    def _make_stack(self, making: ExitStack) -> None:
        self.meanwhile: dict[str, list[Callable[[], object]]] = {step: [] for step in _STEPS}
        for step, (part, method) in _STEPS.items():
            self._interrupt(step, part, method)
        # A read may take as long as a write that waits; moto's answers have no socket that could be hurried.
        self._patch.setattr(ObjectResponse, "hurry", lambda *_: None)
        self.world = World(self._patch, runs_machines=True, policy=self.policy, redis_on=self.redis_on)
        making.callback(self.world.close)
        self.tasks: dict[str, dict[str, Any]] = {}  # of the newest cache functions, by key
        self._patch.setattr(self.world, "_hold_object", partial(self._held, self.world._hold_object))
        self.newest = dict.fromkeys("ab", 0)
        self.answered = dict.fromkeys("ab", 0)
        self.events: list[tuple[str, int]] = []
        self.tiers: set[str] = set()
        for key in "ab":
            self.world.put_object(key, b"0")
        self.readers = [self.world.new_reader() for _ in range(2)]
        self.numbering, self.writer = threading.Lock(), self.world.writer()

    def _interrupt(self, step: str, part: type, method: str) -> None:
        original = getattr(part, method)

        def call(*args: Any, **kwargs: Any) -> Any:
            answer = original(*args, **kwargs)
            if self.meanwhile[step]:
                Context().run(self.meanwhile[step].pop())
            if step in _TAKES_S:
                self.world.clock.sleep(_TAKES_S[step])
            return answer

        self._patch.setattr(part, method, call)

    def _held(self, hold: Callable[..., Any], payload: dict[str, Any], context: Any) -> Any:
        self.tasks[payload["key"]] = payload
        return hold(payload, context)

    def teardown(self) -> None:
        for later in self.meanwhile.values():
            later.clear()
        self.world.relay.is_down = False
        self._made.close()

    # writes

    @rule(key=_KEYS)
    def write(self, key: str) -> None:
        """Write a key and require success, whichever parts are down."""
        objects: Any = _NumberedObjects(self)  # others may write before the answer, in this thread, too
        replace(self.writer, store=objects).put(key, b"its number")
        self.answered[key] = max(self.answered[key], objects.version)

    @rule(key=_KEYS)
    def write_straight_to_s3(self, key: str) -> None:
        self._put_straight(key)

    @precondition(lambda self: self.events)
    @rule(data=st.data(), comes_again=st.booleans())
    def event_of_s3(self, data: st.DataObject, comes_again: bool) -> None:
        event = data.draw(st.sampled_from(self.events))
        if self._handle(event) and not comes_again:
            self.events.remove(event)

    def _handle(self, event: tuple[str, int]) -> bool:
        key, version = event
        try:
            self.world.written(key)
        except BurstcacheError:
            return False  # it comes again
        self.answered[key] = max(self.answered[key], version)
        return True

    def _put_straight(self, key: str) -> tuple[str, int]:
        """Put an object, and return S3's event of it."""
        _, version = self._put_numbered(key, self.world.objects.put)
        self.events.append((key, version))
        return key, version

    def _write_and_event(self, key: str) -> None:
        self._handle(self._put_straight(key))

    @rule(key=_KEYS, step=st.sampled_from(sorted(_STEPS)), is_direct=st.booleans())
    def write_in_the_middle_of_a_step(self, key: str, step: str, is_direct: bool) -> None:
        self.meanwhile[step].append(partial(self._write_and_event if is_direct else self.write, key))

    def _put_numbered(self, key: str, put: Callable[[str, bytes], Written]) -> tuple[Written, int]:
        """Put an object whose body is its number, in S3's own order: a write in another thread may come between."""
        with self.numbering:
            version = self.newest[key] + 1
            written = put(key, b"%d" % version)
            self.newest[key] = version
        return written, version

    # reads

    @rule(reader=_READERS, key=_KEYS)
    def read(self, reader: int, key: str) -> None:
        self._read(self.readers[reader], key)

    @rule(reader=_READERS, key=_KEYS, times=st.sampled_from([2, 12]))
    def burst(self, reader: int, key: str, times: int) -> None:
        for _ in range(times):
            self._read(self.readers[reader], key)
            self.world.clock.sleep(0.05)

    def _read(self, reader: Reader, key: str) -> None:
        oldest, self.world.reader = self.answered[key], reader
        answer = self.world.answer(key)
        assert answer["statusCode"] == 200, answer
        version, tier = int(base64.b64decode(answer["body"])), answer["headers"]["x-cache-tier"]
        assert version >= oldest, (
            f"{tier} gives version {version} of {key}; {oldest} was answered before the read began"
        )
        self.tiers.add(tier)
        self.world.deliver()

    # what happens to a stack

    @rule(duration_s=_TIMES_S)
    def time_passes(self, duration_s: float) -> None:
        self.world.clock.sleep(duration_s)

    @rule(key=_KEYS)
    def cache_function_is_followed_by_another(self, key: str) -> None:
        """An event is run twice, and the one that does not serve dies: two serve until the next heartbeat."""
        if key in self.tasks:
            self.world.report_failure(self.tasks[key], ProcessKilledError("signal: killed"))

    @rule(is_host=st.booleans())
    def cache_functions_die(self, is_host: bool) -> None:
        self.world.kill_cache(host=is_host)

    @rule(is_down=st.booleans())
    def relay_changes(self, is_down: bool) -> None:
        self.world.relay.is_down = is_down

    @rule(is_up=st.booleans())
    def redis_changes(self, is_up: bool) -> None:
        (self.world.redis.start if is_up else self.world.redis.kill)()

    @rule()
    def janitor_runs(self) -> None:
        with suppress(BurstcacheError):
            self.world.clean()

    # ways that chance alone takes too seldom

    @initialize(key=_KEYS)
    def key_gets_hot(self, key: str) -> None:
        self.burst(0, key, 2)
        self.world.clock.sleep(2.1)

    @rule(key=_KEYS, reader=_READERS, between_s=st.sampled_from([0.0, 0.02]))
    def writes_follow_one_another(self, key: str, reader: int, between_s: float) -> None:
        """The second one comes while a tier loads what the first one wrote; readers ask all the time."""
        self.write(key)
        self.world.clock.sleep(between_s)
        self.write(key)
        for _ in range(5):
            self._read(self.readers[reader], key)
            self.world.clock.sleep(0.02)

    @rule(key=_KEYS, step=st.sampled_from(["lease", "load", "copy", "row"]))
    def write_on_the_way_to_redis(self, key: str, step: str) -> None:
        self.write_in_the_middle_of_a_step(key, step, False)
        self.load_lasts_until_redis_serves(key)

    @rule(key=_KEYS, reader=_READERS, is_relay=st.booleans(), is_direct=st.booleans())
    def write_of_which_a_tier_does_not_hear(self, key: str, reader: int, is_relay: bool, is_direct: bool) -> None:
        """Only writers do not reach it, or it is frozen: it has its copies still, and readers ask it again at once."""
        self.burst(reader, key, 2)
        (self.relay_changes if is_relay else self.redis_changes)(is_relay)
        (self._write_and_event if is_direct else self.write)(key)
        (self.relay_changes if is_relay else self.redis_changes)(not is_relay)
        self._read(self.readers[reader], key)
        self._read(self.readers[1 - reader], key)

    @rule(key=_KEYS)
    def load_lasts_until_redis_serves(self, key: str) -> None:
        for _ in range(4):
            self.burst(1, key, 12)
            self.world.clock.sleep(1)
        self.world.clock.sleep(3)
        self._read(self.readers[1], key)


class WritesByUse(Writes):
    """Under the default policy, whose node takes guests."""

    policy = policy_named("breakeven")


class WritesByUseOnTasks(WritesByUse):
    """The same, where the node is a task on Fargate Spot."""

    redis_on = "fargate-spot"


# An example takes a second or so: most of it are the steps of the deployed machines.
_SEARCH = settings(search(20), stateful_step_count=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
TestWrites = Writes.TestCase
TestWrites.settings = _SEARCH
TestWritesByUse = pytest.mark.weekly(WritesByUse.TestCase)  # on EC2; the default is by use on tasks
TestWritesByUse.settings = _SEARCH
TestWritesByUseOnTasks = pytest.mark.slow(WritesByUseOnTasks.TestCase)
TestWritesByUseOnTasks.settings = _SEARCH


@pytest.mark.parametrize("machine", [Writes, WritesByUse, WritesByUseOnTasks])
def test_keys_reach_every_tier(machine: type[Writes]) -> None:
    """The machines above would hold of a stack that serves nothing, too."""
    stack = machine()
    try:
        stack.key_gets_hot("a")
        stack.burst(0, "a", 12)
        for _ in range(4):
            stack.load_lasts_until_redis_serves("a")
        assert {"s3", "redis"} | ({"lambda"} if machine is Writes else set()) <= stack.tiers
    finally:
        stack.teardown()
