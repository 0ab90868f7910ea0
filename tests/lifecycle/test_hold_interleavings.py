"""A person's hold against whatever stops its node, in every order of their calls of DynamoDB.

A hold is never half there: a node that is held boots or runs, and one that is not stops. A hold that was answered
`stopping` came after the mark of the stop, so it boots the node again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import pytest

from burstcache.core.errors import SupersededError
from burstcache.core.node_kinds import NodeKind
from burstcache.queries.nodes import NodeView, read_nodes
from support.functions import NODE
from support.interleavings import Interleaving, every_interleaving
from support.world import World

pytestmark = pytest.mark.slow

_FOR_S = 60
_READS = ("get_item", "get_paginator")  # a paginator reads at once


def _hold(world: World) -> Any:
    return world.invoke("redis_control", {"op": "hold", "node": NODE, "for_s": _FOR_S})


def _release(world: World, **more: bool) -> None:
    world.invoke("redis_control", {"op": "release", "node": NODE, **more})
    _machine_stops(world)


def _machine_stops(world: World) -> None:
    """Deliver the event of a stopped machine. The stop of a task is complete before."""
    if world.tasks is None:
        world.stopped()


# How a node gets into a state, and how it stops from there.


def _stopped(world: World) -> None:
    assert world.node().phase == "stopped"


def _booting(world: World) -> None:
    _hold(world)
    world.boot()


def _booted(world: World) -> None:
    """Boot the node until its Redis answers. Its row still says `booting`."""
    _booting(world)
    _machine_runs(world)


def _machine_runs(world: World) -> None:
    if world.tasks is not None:
        world.ecs.run(world.ecs.tasks[-1])


def _running(world: World) -> None:
    _booted(world)
    world.ready()


def _run_out(world: World) -> None:
    _running(world)
    world.clock.sleep(_FOR_S)


def _marked(world: World) -> None:
    _run_out(world)
    assert world.check(at_us=world.clock.now_us())["outcome"] == "unused"


def _marked_and_held(world: World) -> None:
    _marked(world)
    _hold(world)


def _abandoned(world: World) -> None:
    """Abandon a boot, and lose the answer."""
    _booting(world)
    world.node_step("abandon_node")


def _check(world: World) -> None:
    generation = world.node().generation
    if world.check(at_us=world.clock.now_us())["outcome"] != "used":
        world.node_step("stop_node", generation)
        _machine_stops(world)


def _find_lost(world: World) -> None:
    world.redis.kill()
    _check(world)


def _end_stop(world: World) -> None:
    world.node_step("stop_node")
    _machine_stops(world)


def _abandon(world: World) -> None:
    world.node_step("abandon_node")
    _machine_stops(world)


@dataclass(frozen=True)
class Race:
    """A stop of a node in a state. `ends`: the answers of holds that the stop may end, since they preceded it."""

    state: Callable[[World], None]
    stop: Callable[[World], None]
    ends: Collection[str] = ("booting", "running")


_RACES = {
    "by hand, stopped": Race(_stopped, _release),
    "by hand, booting": Race(_booting, _release),
    "by hand, running": Race(_running, _release),
    "by hand, stopping": Race(_marked, _release, ends=("stopping", "booting")),
    "by hand, stopping and held": Race(_marked_and_held, _release, ends=("stopping", "booting")),
    "the janitor, stopping": Race(_marked, lambda world: _release(world, keeps_hold=True), ends=()),
    "a check": Race(_run_out, _check, ends=()),
    "a check of a lost node": Race(_run_out, _find_lost),
    "the last state": Race(_marked, _end_stop, ends=()),
    "a failed boot": Race(_booting, _abandon),
    "a failed run": Race(_running, _abandon),
    "a failed stop": Race(_marked, _abandon, ends=()),
    "a failed boot, again": Race(_abandoned, _abandon, ends=()),
}


@pytest.mark.parametrize("race", _RACES.values(), ids=_RACES)
@pytest.mark.parametrize("redis_on", ["ec2", "fargate-spot"])
def test_a_hold_against_a_stop(make_world: Callable[..., World], redis_on: NodeKind, race: Race) -> None:
    world = make_world(redis_on=redis_on)
    phases = set()
    for interleaving in every_interleaving(world.clock, reads=_READS):
        race.state(world)
        former = world.node().phase

        held, stopped = _at_once(world, interleaving, _hold, race.stop)

        view = _at_rest(world)
        phase = held.result()["phase"]
        with suppress(SupersededError):  # a node that has booted again has another run
            stopped.result()
        is_held = bool(view.held_until_us)
        assert is_held == (view.phase in ("booting", "running")), interleaving.calls
        assert is_held or phase in race.ends, interleaving.calls
        phases.add(phase)
        _reset(world)
    assert len(phases) > 1 or former == "stopped"


@pytest.mark.parametrize("redis_on", ["ec2", "fargate-spot"])
@pytest.mark.parametrize("state", [_stopped, _run_out, _marked])
def test_a_hold_against_another(
    make_world: Callable[..., World], redis_on: NodeKind, state: Callable[[World], None]
) -> None:
    world = make_world(redis_on=redis_on)
    for interleaving in every_interleaving(world.clock, reads=_READS):
        state(world)
        generation = world.node().generation

        held = _at_once(world, interleaving, _hold, _hold)

        until_us = {each.result()["held_until_us"] for each in held}
        if world.node().phase == "stopping":
            world.node_step("stop_node", generation)
        view = _at_rest(world)
        assert view.phase in ("booting", "running"), interleaving.calls
        assert view.held_until_us in until_us, interleaving.calls
        _reset(world)


@pytest.mark.parametrize("redis_on", ["ec2", "fargate-spot"])
@pytest.mark.parametrize("state", [_running, _marked_and_held])
def test_a_stop_by_hand_against_another(
    make_world: Callable[..., World], redis_on: NodeKind, state: Callable[[World], None]
) -> None:
    world = make_world(redis_on=redis_on)
    for interleaving in every_interleaving(world.clock, reads=_READS):
        state(world)

        stopped = _at_once(world, interleaving, _release, _release)

        for each in stopped:
            each.result()
        assert (_at_rest(world).phase, world.machine_state()) == ("stopped", "stopped"), interleaving.calls
        _reset(world)


@pytest.mark.parametrize("redis_on", ["ec2", "fargate-spot"])
def test_a_node_that_was_stopped_as_it_got_ready_boots_for_the_next_hold(
    make_world: Callable[..., World], redis_on: NodeKind
) -> None:
    world = make_world(redis_on=redis_on)
    for interleaving in every_interleaving(world.clock, reads=_READS):
        _booted(world)
        generation = world.node().generation

        def get_ready(world: World, generation: int = generation) -> None:
            world.node_step("ready_node", generation, part=1)

        for each in _at_once(world, interleaving, get_ready, _release):
            each.result()

        assert _at_rest(world).phase == "stopped", interleaving.calls
        assert _hold(world)["phase"] == "booting"
        world.boot()
        _machine_runs(world)
        world.ready()
        view = _at_rest(world)
        assert view.phase == "running", interleaving.calls
        assert view.held_until_us, interleaving.calls
        assert world.digest.read().nodes[NODE].is_running, interleaving.calls
        _reset(world)


def _at_once(world: World, interleaving: Interleaving, *operations: Callable[[World], Any]) -> Any:
    control = world.control
    world.control = replace(control, nodes=replace(world.nodes, client=interleaving.shared(world.nodes.client)))
    try:
        return interleaving.run(*(lambda each=each: each(world) for each in operations))
    finally:
        world.control = control


def _at_rest(world: World) -> NodeView:
    """Return the node once its machine has stopped, if it was to stop."""
    if world.node().phase == "stopping":
        world.stopped()
    (view,) = read_nodes(world.system)
    return view


def _reset(world: World) -> None:
    """Stop the node, and bring its Redis back."""
    if world.tasks is None:
        world.redis.start()
    if world.node().phase != "stopped":
        _release(world)
    _at_rest(world)
    assert world.node().phase == "stopped"
