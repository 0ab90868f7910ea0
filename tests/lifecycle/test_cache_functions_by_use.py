"""A cache function under policies whose nodes take guests: its start, its end, and what it leaves and reports."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from burstcache.core.keys import key_hash
from burstcache.core.messages.events import ServedBy
from burstcache.core.node_use import NodeUse, decode
from burstcache.core.parameters import US_PER_S
from burstcache.core.rows import NodeRow
from support.functions import NODE
from support.policies import BY_USE, policy_named
from support.world import World

S = US_PER_S
KEY = "k"


@pytest.fixture(params=BY_USE)
def by_use(request: pytest.FixtureRequest, make_world: Callable[..., World]) -> World:
    """A world with dear nodes and dear hits; its machines hold what they are given."""
    world = make_world(policy=policy_named(request.param, per_million="1000", node_type="r7g.large"))
    world.put_object(KEY)
    return world


def ask(world: World, count: int, *, gap_s: float = 1) -> list[str]:
    outcomes = []
    for _ in range(count):
        world.clock.sleep(gap_s)
        outcomes.append(world.report(KEY))
    return outcomes


def boot(world: World) -> NodeRow:
    """Let the node boot, for an hour."""
    now_us = world.clock.now_us()
    row = world.nodes.change(
        world.node(), phase="booting", generation=now_us // 1000, part=1, deadline_at_us=now_us + 3600 * S
    )
    assert row is not None
    return row


def use(world: World) -> NodeUse:
    return decode(world.row(KEY).use)


def test_a_key_that_pays_for_one_starts_a_cache_function(by_use: World) -> None:
    assert ask(by_use, 2) == ["remembered", "started"]

    assert by_use.row(KEY).phase == "lambda"


@pytest.mark.parametrize("name", BY_USE)
def test_a_key_that_is_asked_for_rarely_starts_none(name: str, make_world: Callable[..., World]) -> None:
    world = make_world(policy=policy_named(name, per_million="50", node_type="r7g.large"))

    assert set(ask(world, 5, gap_s=5_000)) == {"remembered"}


def test_a_request_that_comes_twice_or_late_teaches_nothing(by_use: World) -> None:
    at_us = by_use.clock.now_us()
    by_use.report(KEY, at_us=at_us, request_id="a")
    once = by_use.row(KEY)

    by_use.report(KEY, at_us=at_us, request_id="a")
    by_use.report(KEY, at_us=at_us - 5 * S, request_id="b")

    assert (by_use.row(KEY).use, by_use.row(KEY).window) == (once.use, once.window)


def test_late_requests_start_nothing(by_use: World) -> None:
    at_us = by_use.clock.now_us()
    by_use.clock.sleep(60)

    assert [by_use.report(KEY, at_us=at_us + index * S) for index in range(3)] == ["remembered"] * 3


def test_without_a_relay_no_key_is_learned(make_world: Callable[..., World]) -> None:
    world = make_world(policy=policy_named("hazard", per_million="1000"), has_relay=False)

    world.report(KEY)

    assert world.keys.read(key_hash(KEY)) is None


def test_requests_while_it_starts_are_learned(by_use: World) -> None:
    ask(by_use, 2)
    started = use(by_use)

    ask(by_use, 1)

    assert use(by_use).last_us == by_use.clock.now_us()
    assert use(by_use) != started


def test_it_lives_as_long_as_the_key_pays_for_it_and_leaves_what_it_learned(by_use: World) -> None:
    ask(by_use, 2)
    life = by_use.serve(KEY)
    by_use.until(lambda: by_use.row(KEY).tier)
    for _ in range(5):
        by_use.clock.sleep(1)
        assert by_use.get(KEY) == by_use.get(KEY)
    last_us = by_use.clock.now_us()

    assert life.join() == "idle"

    rule = by_use.policy.use
    assert rule is not None
    lives_until_us = rule.key.lives_until_us(use(by_use), is_booting=by_use.node().phase == "booting")
    assert abs(by_use.clock.now_us() - lives_until_us) < S
    assert last_us - use(by_use).last_us < S
    assert by_use.row(KEY).tier == ""


def test_what_it_served_counts_for_the_node(by_use: World) -> None:
    ask(by_use, 2)
    life = by_use.serve(KEY)
    by_use.until(lambda: by_use.row(KEY).tier)
    by_use.clock.sleep(1)
    for _ in range(20):
        by_use.get(KEY)
    life.join()

    reported = [served for event in by_use.reported() for served in event["keys"]]
    by_use.deliver()

    assert sum(len(each["requests"]) + each.get("left_out", 0) for each in reported) == 20
    kinds: set[ServedBy] = {each.get("served_by", "below") for each in reported}
    assert kinds == {"lambda"}
    stored = by_use.uses.read(NODE).use
    assert stored is not None
    assert stored.part or stored.last_us >= 0


def test_it_bridges_the_boot_of_its_node(by_use: World) -> None:
    ask(by_use, 2)
    boot(by_use)
    by_use.clock.sleep(1)
    life = by_use.serve(KEY)
    by_use.until(lambda: by_use.row(KEY).tier)
    by_use.get(KEY)
    life.join()

    rule = by_use.policy.use
    assert rule is not None
    lived_until_us = rule.key.lives_until_us(use(by_use), is_booting=True)
    assert abs(by_use.clock.now_us() - lived_until_us) < S


def test_it_ends_at_once_where_its_node_runs(by_use: World) -> None:
    ask(by_use, 2)
    now_us = by_use.clock.now_us()
    by_use.nodes.change(boot(by_use), phase="running", ready_at_us=now_us)
    life = by_use.serve(KEY)

    assert life.join() == "idle"

    assert by_use.clock.now_us() - now_us < 2 * S


def test_a_gap_in_which_the_node_ran_teaches_nothing(by_use: World) -> None:
    ask(by_use, 1)
    before = use(by_use)
    running = by_use.nodes.change(boot(by_use), phase="running", ready_at_us=by_use.clock.now_us() + S)
    assert running is not None
    stopping = by_use.nodes.change(running, phase="stopping")
    assert stopping is not None
    by_use.clock.sleep(500)

    ask(by_use, 1)

    assert use(by_use).belief == before.belief
    assert len(use(by_use).times_us) <= 1
