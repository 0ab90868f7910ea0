"""Demand that boots a node with guests, from reports that arrive late, twice or concurrently."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from burstcache.control.use_scheduler import UseScheduler
from burstcache.core.errors import ServiceError
from burstcache.core.keys import key_hash
from burstcache.core.messages.events import KeyServed, ServedBy
from burstcache.core.node_use import NodeUse
from burstcache.core.parameters import US_PER_S
from burstcache.core.policy import EVENT_LATENESS_US, RecordedRequest
from burstcache.core.recency import SEEN_AGAIN_AT_BOOT_US, SEEN_AGAIN_US, SEEN_WITHIN_US
from burstcache.core.worth import MICRO
from support.faults import RefusingExecutions
from support.functions import MAX_OBJECT_BYTES, NODE
from support.interruptions import after
from support.policies import BY_USE, policy_named
from support.world import World

S = US_PER_S
KEYS = [f"key {number}" for number in range(12)]


@pytest.fixture(params=BY_USE)
def by_use(request: pytest.FixtureRequest, make_world: Callable[..., World]) -> World:
    """A world whose nodes take guests; its machines hold what they are given."""
    return make_world(policy=policy_named(request.param))


def served(key: str, *at_us: int, served_by: ServedBy = "below", left_out: int = 0) -> KeyServed:
    requests = [RecordedRequest(each, f"{key}-{each}").encode() for each in at_us]
    return KeyServed(key=key, requests=requests, size_bytes=4, etag='"e"', served_by=served_by, left_out=left_out)


def tell(world: World, *keys: KeyServed) -> dict[str, str]:
    detail = {"keys": list(keys)}
    return dict(world.invoke("scheduler", {"detail-type": "RequestsServed", "detail": detail}))


def see(world: World) -> None:
    """Let all keys have been asked for once, an hour ago."""
    tell(world, *(served(key, world.clock.now_us()) for key in KEYS))
    world.clock.sleep(3600)


def ask_all(world: World, *, gap_s: float = 1) -> None:
    """Ask for each key once, at a rate of all of them that pays for the node."""
    for key in KEYS:
        world.clock.sleep(gap_s)
        tell(world, served(key, world.clock.now_us()))


def use(world: World) -> NodeUse:
    found, policy = world.uses.read(NODE), world.policy.use
    assert found.version
    assert policy is not None
    return found.use_by(policy.node)


def test_many_keys_that_are_asked_for_rarely_boot_their_node_together(by_use: World) -> None:
    see(by_use)

    ask_all(by_use)

    row = by_use.node()
    assert (row.phase, row.peers) == ("booting", (NODE,))
    assert by_use.executions_of(by_use.node_machine) == [row.execution_name]
    assert by_use.nodes.leases(NODE) == []


def test_keys_that_come_once_boot_nothing(by_use: World) -> None:
    ask_all(by_use)

    assert by_use.node().phase == "stopped"
    assert by_use.uses.read(NODE).use is None


@pytest.mark.parametrize("name", BY_USE)
def test_keys_that_come_too_rarely_boot_nothing(name: str, make_world: Callable[..., World]) -> None:
    world = make_world(policy=policy_named(name, per_million="1"))
    see(world)

    ask_all(world, gap_s=60)

    assert world.node().phase == "stopped"


def test_a_key_is_noted_as_seen_once_an_hour(by_use: World) -> None:
    first_us = by_use.clock.now_us()
    for at_us in (0, SEEN_AGAIN_US - 1, SEEN_AGAIN_US, SEEN_AGAIN_US + 5):
        tell(by_use, served("k", first_us + at_us))

    (seen,) = by_use.uses.seen(NODE, [key_hash("k")]).values()

    assert (seen.key, seen.size_bytes, seen.seen_at_us) == ("k", 4, first_us + SEEN_AGAIN_US)


def test_while_its_node_boots_a_key_is_noted_once_a_minute(by_use: World) -> None:
    see(by_use)
    first_us = by_use.clock.now_us()
    by_use.control.runs(NODE).boot(by_use.node())
    for at_us in (0, SEEN_AGAIN_AT_BOOT_US, SEEN_AGAIN_AT_BOOT_US + 5):
        tell(by_use, served(KEYS[0], first_us + at_us))

    (seen,) = by_use.uses.seen(NODE, [key_hash(KEYS[0])]).values()

    assert seen.seen_at_us == first_us + SEEN_AGAIN_AT_BOOT_US


def test_a_key_of_the_day_before_is_new(by_use: World) -> None:
    at_us = by_use.clock.now_us()
    tell(by_use, served("k", at_us))

    tell(by_use, served("k", at_us + SEEN_WITHIN_US))

    assert by_use.uses.read(NODE).use is None


def test_a_report_that_comes_twice_counts_once(by_use: World) -> None:
    see(by_use)
    report = [served(key, by_use.clock.now_us()) for key in KEYS]
    tell(by_use, *report)
    once = use(by_use)

    tell(by_use, *report)

    assert use(by_use) == once


def test_a_report_that_comes_late_counts_and_boots_nothing(by_use: World) -> None:
    see(by_use)
    at_us = by_use.clock.now_us()
    by_use.clock.sleep(3600)

    tell(by_use, *(served(key, at_us + index * S) for index, key in enumerate(KEYS)))

    assert by_use.node().phase == "stopped"
    assert use(by_use).last_us == at_us + (len(KEYS) - 1) * S


def test_reports_in_disorder_boot_a_node_too(by_use: World) -> None:
    see(by_use)
    for start in range(0, len(KEYS), 4):
        by_use.clock.sleep(4)
        at_us = by_use.clock.now_us()
        for index in (3, 1, 2, 0):  # as far apart as readers that report once a second
            tell(by_use, served(KEYS[start + index], at_us + index * S // 4))

    assert by_use.node().phase == "booting"


def test_requests_that_a_report_leaves_out_count(by_use: World) -> None:
    see(by_use)

    tell(by_use, served("key 0", by_use.clock.now_us(), left_out=100))

    assert by_use.node().phase == "booting"


def test_an_object_that_no_node_takes_counts_for_none(by_use: World) -> None:
    outcomes = {by_use.report("k", size_bytes=MAX_OBJECT_BYTES + 1) for _ in range(20)}

    assert outcomes == {"too_large"}
    assert by_use.uses.seen(NODE, [key_hash("k")]) == {}


def test_two_schedulers_that_read_the_same_use_count_both_reports(by_use: World) -> None:
    see(by_use)
    working, at_us = by_use.uses, by_use.clock.now_us()

    def overtake() -> None:
        by_use.uses = working
        tell(by_use, served("key 1", at_us))

    by_use.uses = after(working, "read", overtake)
    tell(by_use, served("key 0", at_us))

    policy = by_use.policy.use
    assert policy is not None
    both = policy.node.first()
    for _ in range(2):
        both = policy.node.observe(both, at_us, 1_000_000)
    assert use(by_use) == both


def test_a_report_that_was_overtaken_counts_once_however_often_it_comes(by_use: World) -> None:
    see(by_use)
    working, at_us = by_use.uses, by_use.clock.now_us()
    report = served("key 0", at_us)

    def overtake() -> None:
        by_use.uses = working
        tell(by_use, served("key 1", at_us))

    by_use.uses = after(working, "read", overtake)
    tell(by_use, report)
    assert by_use.uses.read(NODE).pending
    pending = use(by_use)
    tell(by_use, report)
    assert use(by_use) == pending
    tell(by_use, served("key 2", at_us))
    counted = use(by_use)
    tell(by_use, report)

    assert not by_use.uses.read(NODE).encoded
    assert use(by_use) == counted


def test_a_pending_report_that_is_counted_before_it_is_added_counts_once(by_use: World) -> None:
    see(by_use)
    working, at_us = by_use.uses, by_use.clock.now_us()
    report = [served("key 0", at_us)]

    def deliver_again() -> None:
        by_use.uses = working
        tell(by_use, *report)

    by_use.uses = after(working, "read", deliver_again)
    tell(by_use, *report)

    policy = by_use.policy.use
    assert policy is not None
    assert use(by_use) == policy.node.observe(policy.node.first(), at_us, 1_000_000)


def test_pending_reports_boot_the_node_that_they_pay_for(by_use: World) -> None:
    see(by_use)
    working = by_use.uses
    burst = [by_use.clock.now_us() + index for index in range(60)]

    def overtake() -> None:
        by_use.uses = working
        tell(by_use, served("key 1", burst[0]))

    by_use.uses = after(working, "read", overtake)
    tell(by_use, served("key 0", *burst))

    assert by_use.uses.read(NODE).pending
    assert by_use.node().phase == "booting"


def test_a_crowd_of_reports_is_counted_without_an_error_or_a_pause(by_use: World) -> None:
    see(by_use)
    working, at_us, reports = by_use.uses, by_use.clock.now_us(), 24
    everybody, before_s = threading.Barrier(reports), by_use.clock.monotonic_s()
    repeats = [(at_us + number, MICRO) for number in range(reports)]
    policy = by_use.policy.use
    assert policy is not None
    scheduler = by_use.report_scheduler
    assert isinstance(scheduler, UseScheduler)

    def learn(number: int) -> None:
        uses = after(working, "read", everybody.wait)
        replace(scheduler, uses=uses)._learn(NODE, repeats[number : number + 1], b"%8d" % number, at_us)

    with ThreadPoolExecutor(reports) as threads:
        for work in [threads.submit(learn, number) for number in range(reports)]:
            work.result()

    assert by_use.clock.monotonic_s() == before_s
    stored = by_use.uses.read(NODE)
    assert len(stored.pending) == reports - 1
    counted = [weight for _, weight in stored.pending_repeats]
    assert sum(counted) == (reports - 1) * MICRO
    assert working.write(NODE, use(by_use), seen=stored)
    assert not working.read(NODE).encoded


def test_of_two_schedulers_one_boots(by_use: World) -> None:
    see(by_use)
    working, burst = by_use.nodes, [by_use.clock.now_us() + index for index in range(60)]

    def overtake() -> None:
        by_use.scheduler = first
        tell(by_use, served("key 1", *burst))

    first = by_use.scheduler
    by_use.scheduler = replace(first, nodes=after(working, "read", overtake))
    tell(by_use, served("key 0", *burst))

    assert by_use.node().phase == "booting"
    assert len(by_use.executions_of(by_use.node_machine)) == 1


def test_a_boot_that_is_refused_is_tried_again_when_its_report_is(by_use: World) -> None:
    see(by_use)
    burst = served("key 0", *(by_use.clock.now_us() + index for index in range(60)))
    working, by_use.executions = by_use.executions, RefusingExecutions(by_use.states_client)
    with pytest.raises(ServiceError, match="slow down"):
        tell(by_use, burst)

    by_use.executions = working
    tell(by_use, burst)

    assert by_use.node().phase == "booting"
    assert by_use.executions_of(by_use.node_machine) == [by_use.node().execution_name]


def test_while_a_node_boots_requests_count_and_boot_nothing_more(by_use: World) -> None:
    see(by_use)
    ask_all(by_use)
    generation = by_use.node().generation

    ask_all(by_use)

    assert by_use.node().generation == generation
    assert use(by_use).last_us == by_use.clock.now_us()


def test_a_person_boots_the_node_of_a_key(by_use: World) -> None:
    event = {"detail-type": "KeyStartRequested", "detail": {"key": "k"}}

    assert [by_use.invoke("scheduler", event) for _ in range(2)] == [{"outcome": "booted"}, {"outcome": "already_hot"}]

    assert by_use.node().phase == "booting"


def test_a_load_long_over_boots_nothing_when_its_report_is_judged_again(by_use: World) -> None:
    see(by_use)
    burst = [by_use.clock.now_us() + index for index in range(60)]
    by_use.clock.sleep(3600)

    tell(by_use, served("key 0", *burst))
    tell(by_use, served("key 0", *burst))

    assert by_use.node().phase == "stopped"
    assert by_use.clock.now_us() - burst[-1] > EVENT_LATENESS_US
