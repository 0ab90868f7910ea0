"""Failures of a running stack: the end of each, its cost until then, and its alarms.

The deployed machines, functions and alarms on a virtual clock (`tests/support/stack.py`). The rows are those of
`docs/evidence/aws-checks.md`, "Failures of a running stack".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from moto.backends import get_backend

from burstcache.core.messages.executions import key_execution_input
from burstcache.core.node_kinds import NodeKind
from burstcache_local.functions import ACCOUNT
from burstcache_local.moto import ec2_states
from support.aws import REGION, mocked_aws
from support.faults import failing
from support.functions import MAX_OBJECT_BYTES, NODE
from support.interruptions import deadly
from support.project import ROOT
from support.stack import Stack

_HOUR_S = 3600
_ALARMS_SEE_IT_S = 900  # and what a stack of a quarter of an hour ago did
_DOCUMENT = ROOT / "docs/evidence/aws-checks.md"


@dataclass(frozen=True)
class Row:
    """One thing that befalls a stack."""

    event: str  # as the document names it
    begins: Callable[[Stack], object]  # what there is before
    happens: Callable[[Stack, ExitStack], object]  # whatever the exit stack has ends when the stack is at rest
    most_usd: float  # from then on until nothing runs any more
    alarms: set[str] = field(default_factory=set)  # that go off, and no others
    is_slow: bool = False


def cold(stack: Stack) -> None:
    stack.put_object("k")
    stack.read("k")


def abort_key(stack: Stack, _: ExitStack) -> None:
    stack.executions.stop(stack.key_machine, stack.row("k").execution_name, cause="by hand")


def abort_node(stack: Stack, _: ExitStack) -> None:
    stack.executions.stop(stack.node_machine, stack.node().execution_name, cause="by hand")


def start_by_hand(stack: Stack, _: ExitStack) -> None:
    row = stack.row("k")
    started: Any = stack.executions.start(stack.key_machine, "by-hand", key_execution_input(row))
    stack.clock.sleep(1)
    assert started
    assert stack.row("k").tier == row.tier


def redrive(stack: Stack, _: ExitStack) -> None:
    row = stack.row("k")
    stack.until(stack.is_at_rest, every_s=5)
    stack.redrive(row.execution_name, {**key_execution_input(row)}, state="Lambda")


def redrive_while_the_next_lives(stack: Stack, exits: ExitStack) -> None:
    row = stack.row("k")
    stack.until(stack.is_at_rest, every_s=5)
    later = stack.hot()
    stack.redrive(row.execution_name, {**key_execution_input(row)}, state="Lambda")
    for _ in range(3):
        assert stack.read("k") == "lambda"
        stack.clock.sleep(1)
    assert stack.row("k").epoch == later.epoch


def no_room_in_ec2(stack: Stack, exits: ExitStack) -> None:
    exits.enter_context(
        failing(stack.clients.ec2, "StartInstances", times=99, code="InsufficientInstanceCapacity", status=500)
    )
    while not stack.row("k").joined_at_us:
        stack.read("k")
        stack.clock.sleep(0.5)


class StuckInstances:
    """EC2 whose instances do not leave `stopping` unless they are forced to, if then."""

    def __init__(self, stack: Stack, *, until_forced: bool) -> None:
        self._stack, self._until_forced = stack, until_forced

    def enter(self, instance: Any, state: str) -> None:
        """Enter a state, which an instance that stops does not leave by itself."""
        ec2_states.set_state(instance, "running" if state == "pending" else state)

    def note(self, params: dict[str, Any], **_: object) -> None:
        """Note a call of StopInstances."""
        if params["Force"] and self._until_forced:
            self._stack._lives.append(self._stack.clock.start(self._stop))

    def _stop(self) -> None:
        self._stack.clock.sleep(20)
        ec2_states.set_state(instance_of(self._stack), "stopped")
        self._stack.stopped()


def instance_of(stack: Stack) -> Any:
    """Return moto's instance of the node."""
    return get_backend("ec2")[ACCOUNT][REGION].get_instance(stack.instances.instance_ids[NODE])


def stuck_in_stopping(stack: Stack, exits: ExitStack, *, until_forced: bool = True) -> None:
    stuck, events = StuckInstances(stack, until_forced=until_forced), stack.clients.ec2.meta.events
    patch = exits.enter_context(pytest.MonkeyPatch.context())
    patch.setattr(ec2_states, "_agent_of", lambda _: stuck)
    patch.setattr(stack, "_instance_stops", lambda node: stack.clock.sleep(1))
    events.register("provide-client-params.ec2.StopInstances", stuck.note, unique_id="stuck")
    exits.callback(events.unregister, "provide-client-params.ec2.StopInstances", unique_id="stuck")
    stack.until(lambda: stack.node().phase == "stopping", within_s=_HOUR_S, every_s=5)
    if not until_forced:
        stack.clock.sleep(_HOUR_S)
        ec2_states.set_state(instance_of(stack), "stopped")


def stuck_for_an_hour(stack: Stack, exits: ExitStack) -> None:
    stuck_in_stopping(stack, exits, until_forced=False)


def no_room_on_spot(stack: Stack, _: ExitStack) -> None:
    stack.ecs.full = {"FARGATE_SPOT"}
    stack.promoted()


def no_room_on_fargate(stack: Stack, _: ExitStack) -> None:
    stack.ecs.full = {"FARGATE_SPOT", "FARGATE"}
    stack.promoted()


def no_image(stack: Stack, exits: ExitStack) -> None:
    patch = exits.enter_context(pytest.MonkeyPatch.context())
    patch.setattr(stack.ecs, "run", lambda task: stack.ecs.end(task, "TaskFailedToStart", "CannotPullContainerError"))
    stack.promoted()


def end_running_task(stack: Stack, _: ExitStack) -> None:
    (task,) = stack.ecs.running()
    stack.end_task(task)


def interrupt_task(stack: Stack, _: ExitStack) -> None:
    (task,) = stack.ecs.running()
    stack.ecs.interrupt(task)
    stack.clock.sleep(120)
    stack.end_task(task)


def lose_task_silently(stack: Stack, exits: ExitStack) -> None:
    patch = exits.enter_context(pytest.MonkeyPatch.context())
    patch.setattr(stack.ecs, "deliver", None)
    interrupt_task(stack, exits)


def terminate(stack: Stack, _: ExitStack) -> None:
    ec2_states.set_state(instance_of(stack), "terminated")
    stack.redis.kill()


def boot_what_is_terminated(stack: Stack, exits: ExitStack) -> None:
    terminate(stack, exits)
    while not stack.row("k").joined_at_us:
        stack.read("k")
        stack.clock.sleep(0.5)


def replace_relay(stack: Stack, _: ExitStack, *, takes_s: float = 100) -> None:
    stack.relay.is_down = True
    for _each in range(5):
        assert stack.read("k") == "s3"
    stack.clock.sleep(takes_s)
    stack.relay.is_down = False


def lose_relay(stack: Stack, exits: ExitStack) -> None:
    stack.relay.is_down = True
    for _ in range(120):
        assert stack.read("k") == "s3"
        stack.clock.sleep(5)
    stack.relay.is_down = False


def reads(stack: Stack, *, for_s: int) -> None:
    for _ in range(for_s):
        stack.answer("k")
        stack.deliver()
        stack.clock.sleep(1)


def throttle_scheduler(stack: Stack, _: ExitStack) -> None:
    stack.refused.add("scheduler")
    reads(stack, for_s=30)
    stack.clock.sleep(120)
    stack.refused.clear()


def fail_scheduler(stack: Stack, exits: ExitStack) -> None:
    with failing(stack.clients.dynamodb, "UpdateItem", times=10_000, code="InternalServerError", status=500):
        reads(stack, for_s=5)
        stack.clock.sleep(300)


def cut_off_scheduler(stack: Stack, _: ExitStack) -> None:
    stack.cut_off.add("scheduler")
    reads(stack, for_s=5)
    stack.clock.sleep(300)
    stack.cut_off.clear()


def throttle_dynamodb(stack: Stack, exits: ExitStack) -> None:
    exits.enter_context(failing(stack.clients.dynamodb, "BatchGetItem", times=2, code="ThrottlingException"))


def repeat_events(stack: Stack, _: ExitStack) -> None:
    now_us = stack.clock.now_us()
    for at_us in (now_us - 3_000_000, now_us, now_us - 1_000_000, now_us, now_us - 60_000_000, now_us + 5_000):
        stack.report("k", at_us=at_us, request_id=f"r{at_us}")


def use_up_concurrency(stack: Stack, _: ExitStack) -> None:
    stack.put_object("other")
    stack.refused.add("cache")
    reads(stack, for_s=10)
    stack.refused |= {"proxy", "scheduler", "redis_control", "janitor", "origin"}
    assert stack.answer("k")["statusCode"] == 503
    for _each in range(1200):
        stack.answer("k")
        stack.clock.sleep(1)
    stack.refused.clear()


def switch_off_janitor(stack: Stack, exits: ExitStack) -> None:
    stack.has_janitor = False
    abort_node(stack, exits)
    stack.clock.sleep(1800)
    if stack.redis_on == "ec2":  # the machine's own program ends it, which has seen no sign for half an hour
        stack.instances.stop(stack.nodes.read(NODE))
    else:
        end_running_task(stack, exits)


def crawl(stack: Stack, _: ExitStack) -> None:
    for number in range(50):
        stack.put_object(f"page {number}")
        stack.read(f"page {number}")
        stack.clock.sleep(1)


def stop_origin_function(stack: Stack, _: ExitStack) -> None:
    """Throttle the origin function for ten minutes, and write to the bucket meanwhile."""
    stack.refused.add("origin")
    stack.put_object("k", b"new")
    stack.written("k")
    stack.clock.sleep(600)
    stack.refused.remove("origin")
    stack.until(lambda: bool(stack.digest.read().changes), within_s=100, every_s=10)


def delete(stack: Stack, _: ExitStack) -> None:
    stack.delete_object("k")
    stack.written("k")


def outgrow(stack: Stack, _: ExitStack) -> None:
    stack.put_object("k", b"x" * (MAX_OBJECT_BYTES + 1))
    stack.written("k")


def kill_cache(stack: Stack, _: ExitStack) -> None:
    stack.kill_cache()


def lose_host_of_cache(stack: Stack, _: ExitStack) -> None:
    stack.kill_cache(host=True)


def kill_each_cache(stack: Stack, _: ExitStack) -> None:
    stack.cache_tools = replace(stack.cache_tools, objects=deadly(stack, 99))
    while stack.row_or_none("k").phase == "s3":
        stack.read("k")
        stack.clock.sleep(0.5)


def kill_redis(stack: Stack, _: ExitStack) -> None:
    stack.redis.kill()


_ROWS = [
    Row("a key's execution is aborted", Stack.hot, abort_key, 0.0001),
    Row("a node's execution is aborted", Stack.in_redis, abort_node, 0.001),
    Row("an execution is started by hand with another's input", Stack.hot, start_by_hand, 0.0002),
    Row("an execution is redriven", Stack.hot, redrive, 0.0002, {"KeyLifecycleAlarm"}),
    Row(
        "an execution is redriven while the key's next one runs",
        Stack.hot,
        redrive_while_the_next_lives,
        0.0006,
        {"KeyLifecycleAlarm"},
    ),
    Row("EC2 has no capacity", Stack.hot, no_room_in_ec2, 0.0008, {"RedisNodeAlarm"}),
    Row("an instance is terminated", Stack.in_redis, terminate, 0.0004),
    Row("an instance is terminated, and a key joins", Stack.hot, boot_what_is_terminated, 0.0025, {"RedisNodeAlarm"}),
    Row("an instance hangs in `stopping`", Stack.in_redis, stuck_in_stopping, 0.0004, is_slow=True),
    Row(
        "an instance hangs in `stopping` for an hour, forced or not",
        Stack.in_redis,
        stuck_for_an_hour,
        0.0006,
        {"OverdueNodesAlarm"},
        is_slow=True,
    ),
    Row("Redis dies on its node", Stack.in_redis, kill_redis, 0.0004),
    Row("the relay's task is replaced", Stack.hot, replace_relay, 0.0002),
    Row(
        "the relay is gone for ten minutes", cold, lose_relay, 0.0015, {"KeyLifecycleAlarm", "RelayAlarm"}, is_slow=True
    ),
    Row("the scheduler is throttled", cold, throttle_scheduler, 0.0001, {"FailedEventsAlarm"}),
    Row("the scheduler fails on events", cold, fail_scheduler, 0.0001, {"FailedEventsAlarm"}),
    Row("EventBridge does not reach the scheduler", cold, cut_off_scheduler, 0.0001, {"UndeliveredEventsAlarm"}),
    Row("the origin function cannot run for ten minutes", cold, stop_origin_function, 0.0001, {"WaitingEventsAlarm"}),
    Row("DynamoDB throttles a node's steps", Stack.in_redis, throttle_dynamodb, 0.0005, is_slow=True),
    Row("events are duplicated, late, out of order; a clock is behind", cold, repeat_events, 0.0002),
    Row(
        "the account's concurrency is used up",
        cold,
        use_up_concurrency,
        0.0002,
        {"KeyLifecycleAlarm", "ThrottledReadsAlarm", "ConcurrencyAlarm", "JanitorAlarm"},
    ),
    Row("the janitor's rule is switched off", Stack.in_redis, switch_off_janitor, 0.006, {"JanitorAlarm"}),
    Row("the bucket is crawled", cold, crawl, 0.0002, is_slow=True),
    Row("a hot object is deleted", Stack.hot, delete, 0.0001),
    Row("a hot object outgrows the tiers", Stack.hot, outgrow, 0.0001),
    Row("a cache function dies", Stack.hot, kill_cache, 0.0002),
    Row("a cache function's host is lost", Stack.hot, lose_host_of_cache, 0.0002),
    Row("each cache function of a key dies as it starts", cold, kill_each_cache, 0.0003, {"KeyLifecycleAlarm"}),
    Row("a cache function dies after its promotion", Stack.promoted, kill_cache, 0.0006),
]

_OF_EC2 = {no_room_in_ec2, terminate, boot_what_is_terminated, stuck_in_stopping, stuck_for_an_hour, kill_redis}
_ROWS_OF_TASKS = [
    Row("Fargate Spot has no capacity", Stack.hot, no_room_on_spot, 0.0008),
    Row("Fargate has no capacity", Stack.hot, no_room_on_fargate, 0.0008, {"RedisNodeAlarm"}),
    Row("a task's image is missing", Stack.hot, no_image, 0.0008, {"RedisNodeAlarm"}),
    Row("Redis dies in its task", Stack.in_redis, end_running_task, 0.0004),
    Row("AWS takes back a running task's capacity", Stack.in_redis, interrupt_task, 0.0006),
    Row("AWS takes back a booting task's capacity", Stack.promoted, interrupt_task, 0.0008),
    Row("AWS takes back a running task's capacity, and the event is lost", Stack.in_redis, lose_task_silently, 0.0008),
]


@pytest.fixture
def make_stack(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[NodeKind], Stack]]:
    """A stack as it is deployed, with nodes of a kind, that AWS runs."""
    made: list[Stack] = []

    def make(redis_on: NodeKind) -> Stack:
        made.append(Stack(monkeypatch, redis_on=redis_on))
        return made[-1]

    with mocked_aws():
        yield make
        for stack in made:
            stack.close()


@pytest.mark.parametrize(
    ("redis_on", "row"),
    [
        *(pytest.param("ec2", row, id=row.event, marks=[pytest.mark.slow] * row.is_slow) for row in _ROWS),
        *(
            pytest.param("fargate-spot", row, id=f"{row.event}, on Fargate", marks=[pytest.mark.slow] * row.is_slow)
            for row in [*(row for row in _ROWS if row.happens not in _OF_EC2), *_ROWS_OF_TASKS]
        ),
    ],
)
def test_it_ends_by_itself_for_a_bounded_bill_and_its_alarms_go_off(
    make_stack: Callable[[NodeKind], Stack], redis_on: NodeKind, row: Row
) -> None:
    stack = make_stack(redis_on)
    row.begins(stack)
    before_usd = stack.bill().usd
    with ExitStack() as exits:
        row.happens(stack, exits)
        stack.until(stack.is_at_rest, within_s=_HOUR_S, every_s=10)
    taken_usd = stack.bill().usd - before_usd
    stack.clock.sleep(_ALARMS_SEE_IT_S)

    assert taken_usd <= row.most_usd
    assert stack.alarms() == row.alarms


def test_the_document_has_these_rows_with_their_bills_and_alarms() -> None:
    section = _DOCUMENT.read_text().split("## Failures of a running stack")[1]
    lines = [line.split("|")[1:-1] for line in section.splitlines() if line.startswith("| ")][1:]
    documented = {
        event.strip(): (usd.strip(), set(re.findall(r"`(\w+Alarm)`", alarms))) for event, _, usd, alarms in lines
    }

    rows = {row.event: (f"{row.most_usd:.4f}", row.alarms) for row in [*_ROWS, *_ROWS_OF_TASKS]}
    assert rows.items() <= documented.items()


@pytest.mark.parametrize("redis_on", ["ec2", "fargate-spot"])
def test_a_stack_in_order_has_no_alarm(make_stack: Callable[[NodeKind], Stack], redis_on: NodeKind) -> None:
    stack = make_stack(redis_on)
    stack.in_redis()
    stack.until(stack.is_at_rest, every_s=10)
    stack.clock.sleep(_ALARMS_SEE_IT_S)

    assert stack.alarms() == set()
