"""Tests of the digest: updates that readers see, and reports of hits in readers' memories to the lives of keys."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from burstcache.adapters.digest_table import DigestTable
from burstcache.adapters.machines import NodeMachines
from burstcache.adapters.redis_objects import object_key, recent_key
from burstcache.core.digest import Route, prefix_of
from burstcache.core.errors import CleaningFailedError, FunctionFailedError, ServiceTransientError
from burstcache.core.keys import key_hash
from burstcache.core.table import KeyColumns
from support.aws import put_row
from support.functions import NODE
from support.interruptions import after
from support.world import World

_HASH = key_hash("k")
_MEMORY_BYTES = 1 << 20


def _route(world: World, key: str = "k") -> Route | None:
    return world.digest.read().route(key_hash(key), now_us=world.clock.now_us())


def _shown(world: World) -> None:
    """Wait until readers are sent to the key's cache function: its row says so a moment before the digest does."""
    world.until(lambda: _route(world) == Route("lambda"))


def _with_memory(world: World) -> None:
    world.reader = world.new_reader(memory_bytes=_MEMORY_BYTES)


def test_the_digest_follows_a_key_through_its_life(world: World) -> None:
    world.started("k")
    seen = [_route(world)]
    life = world.serve("k")
    _shown(world)
    seen.append(_route(world))
    name = world.join("k")
    world.ready()
    generation = world.node().generation
    world.outcome(name)
    world.key_step("seed", "k", generation=generation)
    seen.append(_route(world))
    world.leave("k", is_failed=False)
    seen.append(_route(world))

    assert seen == [None, Route("lambda"), Route("redis", NODE), None]
    life.join()


def test_a_node_is_out_of_the_digest_before_it_stops(world: World) -> None:
    world.running("k")
    generation = world.node().generation
    routes: list[Route | None] = []
    assert world.check()["outcome"] == "unused"
    machines = NodeMachines(after(world.instances, "stop", lambda: routes.append(_route(world))))
    world.control = replace(world.control, machines=machines)
    before = _route(world)

    world.node_step("stop_node", generation)

    assert (before, routes) == (Route("redis", NODE), [None])


def test_a_lost_node_unroutes_all_its_keys_at_once(world: World) -> None:
    for key in ("k", "l"):
        world.running(key)
    world.redis.kill()

    assert world.check()["outcome"] == "unused"

    assert [_route(world, key) for key in ("k", "l")] == [None, None]


@pytest.mark.parametrize("key", ["k", "never read"])
def test_every_write_to_the_bucket_is_announced(world: World, key: str) -> None:
    world.put_object(key, b"new")

    world.written(key)

    assert world.digest.read().changes == [prefix_of(key_hash(key))]


def test_a_write_is_announced_after_the_tiers_have_followed_it(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.running("k")
    world.put_object("k", b"new")
    in_redis: list[Any] = []
    announce = DigestTable.announce

    def noted(digest: DigestTable, hashes: Sequence[str], **more: Any) -> int:
        in_redis.extend(world.redis.client.hget(object_key(hash_), "body") for hash_ in hashes)
        return announce(digest, hashes, **more)

    monkeypatch.setattr(DigestTable, "announce", noted)

    world.written("k")

    assert in_redis == [b"new"]


def test_a_write_that_a_tier_did_not_follow_is_announced_at_every_attempt(world: World) -> None:
    def fail(payload: object) -> None:
        raise FunctionFailedError("redis control is away")

    world.running("k")
    world.put_object("k", b"new")
    world.origin_changes = replace(world.origin_changes, redis_control=fail)
    for _ in range(2):
        with pytest.raises(FunctionFailedError):
            world.written("k")

    assert world.digest.read().changes == [prefix_of(_HASH)] * 2


def test_a_cache_function_that_outlived_its_state_is_asked_no_more_after_a_write(world: World) -> None:
    row = world.started("k")
    world.serve("k")
    _shown(world)
    put_row(f"KEY#{row.hash}", "ROUTE", {"key": "k", "phase": "s3", "epoch": row.epoch})  # as Step Functions does
    before = _route(world)
    world.put_object("k", b"new")

    world.written("k")

    assert (before, _route(world)) == (Route("lambda"), None)


def test_a_write_waits_for_readers_that_still_ask_a_cache_function_that_outlived_its_state(world: World) -> None:
    row = world.started("k")
    world.serve("k")
    _shown(world)
    before = world.read("k")  # which knows the digest for two seconds from now on
    put_row(f"KEY#{row.hash}", "ROUTE", {"key": "k", "phase": "s3", "epoch": row.epoch})

    world.writer().put("k", b"new")

    assert (before, world.answer("k")["body"]) == ("lambda", "bmV3")


def test_a_write_waits_for_readers_that_still_ask_the_node_of_a_former_life(world: World) -> None:
    world.running("k")
    before = world.read("k")
    over_us = world.clock.now_us() - 11_000_000
    row = {"key": "k", "phase": "s3", "epoch": world.row("k").epoch, "changed_at_us": over_us}
    put_row(f"KEY#{key_hash('k')}", "ROUTE", row)  # and Redis did not hear that it was over

    world.writer().put("k", b"new")

    assert (before, world.answer("k")["body"]) == ("redis", "bmV3")


def test_what_a_former_life_left_in_the_digest_is_asked_no_more_after_a_write(world: World) -> None:
    row = world.started("k")
    world.digest.show_key(replace(row, epoch=row.epoch - 1, tier="lambda"))  # its cache function still answers
    before = _route(world)
    world.put_object("k", b"new")

    world.written("k")

    assert (before, _route(world)) == (Route("lambda"), None)
    assert world.row("k").phase == "lambda"


def test_a_route_to_redis_that_was_not_shown_is_shown_before_a_write_is_announced(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.joined("k")
    row = world.row("k")
    world.digest.show_key(replace(row, tier="lambda"))
    world.ready()
    with monkeypatch.context() as patch:
        patch.setattr(DigestTable, "show_key", lambda *_: False)
        world.key_step("seed", "k", generation=world.node().generation)
    before = _route(world)
    world.put_object("k", b"new")

    world.written("k")

    assert (before, _route(world)) == (Route("lambda"), Route("redis", NODE))


def test_a_write_takes_no_route_off_that_is_shown_meanwhile(world: World) -> None:
    row = world.started("k")
    world.digest.show_key(replace(row, epoch=row.epoch - 1, tier="lambda"))

    def announce() -> None:
        world.keys.update(row.hash, epoch=row.epoch, set_=KeyColumns(tier="lambda"))

    world.origin_changes = replace(world.origin_changes, digest=after(world.digest, "read_key", announce))
    world.written("k")

    assert world.digest.read().routes[row.hash].epoch == row.epoch


def test_a_write_that_could_not_be_announced_is_an_error_so_that_the_event_comes_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> int:
        raise ServiceTransientError("throttled")

    monkeypatch.setattr(DigestTable, "announce", refuse)

    with pytest.raises(ServiceTransientError):
        world.written("k")


def test_a_key_whose_route_was_not_shown_is_added_by_the_janitor(world: World) -> None:
    row = world.started("k")
    world.serve("k")
    _shown(world)
    shown = world.digest.read().routes[row.hash]
    world.digest.remove_key(row.hash, shown)

    world.clean()

    assert _route(world) == Route("lambda")


def test_a_key_that_has_left_is_removed_by_the_janitor(world: World) -> None:
    world.running("k")
    world.leave("k", is_failed=False)

    world.clean()

    assert world.digest.read().routes == {}


def test_a_node_that_was_not_shown_is_added_by_the_janitor(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    show_node = DigestTable.show_node
    monkeypatch.setattr(DigestTable, "show_node", lambda *_: True)
    world.running("k")
    monkeypatch.setattr(DigestTable, "show_node", show_node)
    monkeypatch.setattr(type(world.executions), "is_running", lambda *_: True)

    world.clean()

    assert _route(world) == Route("redis", NODE)


def test_a_node_that_is_shown_in_a_former_run_is_shown_in_this_one_by_the_janitor(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(DigestTable, "show_node", lambda *_: True)
        world.running("k")
    world.digest.show_node(replace(world.node(), generation=world.node().generation - 1))
    monkeypatch.setattr(type(world.executions), "is_running", lambda *_: True)

    world.clean()

    assert _route(world) == Route("redis", NODE)


def test_a_node_that_cannot_be_stopped_does_not_keep_the_janitor_from_mending_the_digest(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> None:
        raise ServiceTransientError("throttled")

    world.joined("k")
    world.digest.show_key(replace(world.row("k"), epoch=1, tier="lambda"))
    world.clock.sleep(3600)
    world.janitor = replace(world.janitor, redis_control=refuse)

    with pytest.raises(CleaningFailedError, match="throttled"):
        world.clean()

    assert world.digest.read().routes == {}


def test_a_digest_that_cannot_be_written_ends_no_life(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> bool:
        raise ServiceTransientError("throttled")

    world.started("k")
    monkeypatch.setattr(DigestTable, "show_key", refuse)

    assert world.serve("k").join() == "idle"


# Memory


def test_memory_serves_until_a_write_is_announced(world: World) -> None:
    _with_memory(world)
    world.put_object("k")
    served = [world.read("k") for _ in range(2)]
    world.put_object("k", b"new")
    served.append(world.read("k"))
    world.written("k")
    world.clock.sleep(2.1)
    served.append(world.read("k"))

    assert served == ["s3", "memory", "memory", "s3"]


def test_hits_of_memory_make_a_key_hot(world: World) -> None:
    _with_memory(world)
    world.put_object("k")
    world.read("k")
    for _ in range(4):
        world.clock.sleep(0.5)
        assert world.read("k") == "memory"

    assert world.row("k").phase == "lambda"


def test_hits_of_memory_prolong_the_life_of_the_cache_function(world: World) -> None:
    _with_memory(world)
    world.started("k")
    began_us = world.clock.now_us()
    life = world.serve("k")
    _shown(world)
    served = []
    for _ in range(12):
        world.clock.sleep(1.5)
        served.append(world.read("k"))

    assert served == ["lambda", *["memory"] * 11]
    life.join()
    lived_us = world.clock.now_us() - began_us
    assert lived_us > 6 * world.parameters.tick_us


def test_hits_of_memory_keep_a_key_in_redis(world: World) -> None:
    _with_memory(world)
    world.running("k")
    world.read("k")
    for _ in range(3):
        world.clock.sleep(1.5)
        assert world.read("k") == "memory"
    newest_us = int(world.redis.client.lrange(recent_key(_HASH), 0, 0)[0])

    assert world.clock.now_us() - newest_us <= 1_500_000


def test_hits_of_memory_leave_no_times_in_a_redis_that_has_let_the_key_go(world: World) -> None:
    _with_memory(world)
    world.running("k")
    world.read("k")
    world.store.remove(_HASH)

    world.clock.sleep(1.5)
    assert world.read("k") == "memory"

    assert not world.redis.client.exists(recent_key(_HASH))


def test_a_copy_that_a_tier_has_not_replaced_yet_is_not_kept_in_memory(world: World) -> None:
    _with_memory(world)
    world.running("k")
    world.put_object("k", b"new")
    world.digest.announce(
        [_HASH], now_us=world.clock.now_us()
    )  # before Redis has the new object: as if a second write were under way

    served = [world.read("k"), world.read("k")]
    world.written("k")
    served += [world.read("k"), world.read("k")]

    assert served == ["redis", "redis", "s3", "memory"]


def test_what_memory_served_last_is_reported_when_the_reader_closes(world: World) -> None:
    _with_memory(world)
    row = world.started("k")
    world.keys.update(row.hash, epoch=row.epoch, set_=KeyColumns(deadline_at_us=0))
    world.read("k")
    assert world.read("k") == "memory"
    requests = len(world.row("k").window)

    world.reader.close()
    world.deliver()

    assert len(world.row("k").window) == requests + 1
