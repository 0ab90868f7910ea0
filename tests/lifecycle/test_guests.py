"""Guests of a running node: what readers bring to it, and what writes to the bucket take away."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from burstcache.adapters.digest_table import DigestTable
from burstcache.adapters.redis_objects import Hit, object_key
from burstcache.core.keys import key_hash
from burstcache.core.phases import NodePhase
from support.functions import NODE
from support.interruptions import after
from support.world import World


@pytest.fixture(params=["ec2", "fargate-spot"])
def world(request: pytest.FixtureRequest, make_world: Callable[..., World]) -> World:
    """A world whose machines stop at their first task, once with the node on EC2 and once as a task."""
    return make_world(redis_on=request.param)


def run(world: World) -> None:
    """Let the node run and take guests."""
    host = "" if world.tasks is None else "10.0.0.1"
    booting = world.nodes.change(world.node(), phase="booting", generation=7, part=1, peers=[NODE])
    assert booting is not None
    running = world.nodes.change(booting, phase="running", deadline_at_us=2**62, host=host)
    assert running is not None
    world.digest.show_node(running)


def is_here(world: World, key: str) -> bool:
    return bool(world.redis.client.exists(object_key(key_hash(key))))


@pytest.fixture
def guest(world: World) -> World:
    """A world whose node has the guest `k`."""
    run(world)
    world.put_object("k", b"old!")
    assert world.read("k") == "s3"
    assert is_here(world, "k")
    return world


def test_hits_of_guests_are_noted_on_the_node_and_told_to_nobody(guest: World) -> None:
    requests = len(guest.row("k").window)
    for _ in range(2):
        guest.clock.sleep(1)
        assert guest.read("k") == "redis"

    now_us = guest.clock.now_us()
    assert guest.store.hits() == [Hit(now_us, 4), Hit(now_us - 1_000_000, 4)]
    assert len(guest.row("k").window) == requests


def test_a_write_takes_a_guest_away_before_it_is_announced(guest: World, monkeypatch: pytest.MonkeyPatch) -> None:
    here: list[bool] = []
    announce = DigestTable.announce

    def noted(digest: DigestTable, hashes: Sequence[str], **more: Any) -> int:
        here.append(is_here(guest, "k"))
        return announce(digest, hashes, **more)

    monkeypatch.setattr(DigestTable, "announce", noted)
    guest.put_object("k", b"new")

    guest.written("k")

    assert here == [False]
    assert [guest.read("k") for _ in range(2)] == ["s3", "redis"]


@pytest.mark.parametrize("phase", ["running", "stopping"])
def test_a_guest_on_a_node_that_does_not_hear_of_a_write_is_read_no_more(guest: World, phase: NodePhase) -> None:
    if phase == "stopping":
        guest.nodes.change(guest.node(), phase="stopping")
    guest.put_object("k", b"new")
    guest.redis.kill()

    guest.written("k")

    guest.redis.start()
    assert is_here(guest, "k")
    assert guest.read("k") == "s3"
    assert len(guest.digest.read().changes) == 3  # early, before the wait for readers and after it


def test_a_read_that_a_write_overtakes_brings_nothing(world: World) -> None:
    def overtake() -> None:
        world.put_object("k", b"new")
        world.written("k")

    run(world)
    world.put_object("k", b"old")
    world.objects = after(world.objects, "get", overtake)
    world.reader = world.new_reader()

    assert world.read("k") == "s3"

    assert not is_here(world, "k")


def test_a_write_follows_the_tiers_from_below(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader that knows of the write must find no old copy in a tier; any of them may let go first."""
    order: list[str] = []
    run(world)
    world.control = replace(
        world.control,
        store=lambda name: after(world.store, "drop", lambda: order.append("redis")),
        relay=_Asked(order),
    )
    row = world.started("k")
    world.keys.update(row.hash, epoch=row.epoch, set_={"tier": "lambda"})
    monkeypatch.setattr(DigestTable, "announce", lambda *_, **__: order.append("memories"))

    world.written("k")

    assert {*order[:2]} == {"redis", "lambda"}
    assert order[2:] == ["memories"]


class _Asked:
    """A relay that hands orders to nobody."""

    def __init__(self, order: list[str]) -> None:
        self._order = order

    def send_request(self, subject: str, payload: bytes, *, timeout_s: float) -> bytes | None:
        raise AssertionError("an order needs no answer")

    def send_order(self, subject: str, payload: bytes, *, timeout_s: float) -> None:
        self._order.append("lambda")
