"""Lives of the cache function (cache_life): their memory, and the state after a failed promotion."""

from __future__ import annotations

import pytest

from burstcache.core.cache_lives import LeasedLife
from burstcache.core.errors import SilentHolderError
from burstcache.core.messages.encoding import encode
from burstcache.core.messages.relay import NOT_HERE, Get
from burstcache.core.parameters import US_PER_S
from burstcache.core.policy import MAX_SILENT_LIFE_US
from support.life import PARAMETERS, LifeStage

_LASTS = PARAMETERS.redis_threshold + 3  # GETs after which the load lasts, so that the life asks for Redis
_TICK_S = PARAMETERS.tick_us / US_PER_S


def test_window_does_not_grow_with_the_load() -> None:
    with LifeStage("k").running() as stage:
        for at_us in range(200):
            stage.get(at_us)
        remembered = len(stage.life.requests.window)
        handed_over = stage.stop()

    assert [request.at_us for request in handed_over] == list(range(200 - PARAMETERS.window_length, 200))
    assert remembered <= 4 * PARAMETERS.window_length
    assert isinstance(stage.life.life, LeasedLife)
    assert stage.life.life.life.count == 200


def test_promotion_that_fails_does_not_prolong_the_life() -> None:
    with LifeStage("k", refuses=True).running() as stage:
        for at_us in range(_LASTS):
            stage.get(at_us)
        assert stage.ends() == "idle"

    assert stage.executions.completed > 1  # each GET asks again
    assert round(stage.clock.monotonic_s()) == (1 + _LASTS) * _TICK_S


def test_a_load_that_no_node_takes_does_not_prolong_the_life_for_hours() -> None:
    with LifeStage("k", refuses=True).running() as stage:
        for at_us in range(2 * MAX_SILENT_LIFE_US // PARAMETERS.tick_us):
            stage.get(at_us)
        assert stage.ends() == "idle"

    assert round(stage.clock.monotonic_s()) == MAX_SILENT_LIFE_US / US_PER_S


def test_promotion_keeps_the_life_running_and_its_heartbeats_end() -> None:
    with LifeStage("k").running() as stage:
        for at_us in range(_LASTS):
            stage.get(at_us)
        assert stage.ends() == "idle"

    assert stage.executions.completed == 1
    assert stage.clock.monotonic_s() > PARAMETERS.keep_running_us / US_PER_S
    assert stage.executions.beats_at_s == []


def test_heartbeats_go_on_after_a_promotion_that_failed() -> None:
    with LifeStage("k", refuses=True).running() as stage:
        for at_us in range(_LASTS):
            stage.get(at_us)

    assert [round(at_s) for at_s in stage.executions.beats_at_s] == [15, 30]


def test_a_get_whose_reader_has_gone_while_it_waited_for_its_turn_is_not_answered() -> None:
    with LifeStage("k").running() as stage:
        stage.life.copy.set_connected(False)  # so that a GET waits a quarter of a second for the copy
        first = stage.clock.start(stage.ask, within_s=1.0)
        stage.clock.sleep(0.001)

        with pytest.raises(SilentHolderError):
            stage.ask(within_s=0.2)

        assert stage.clock.wait_for(first) == NOT_HERE


def test_a_get_waits_for_the_copy_half_of_what_its_reader_has_left() -> None:
    stage, answers = LifeStage("k"), list[bytes]()
    get = Get(at_us=0, request_id="r", method="GET", within_us=US_PER_S // 2)

    async def respond(answer: bytes) -> None:
        answers.append(answer)

    async def ask_in_vain() -> None:
        await stage.life.copy.load(stage.life._fetch)
        stage.life.copy.drop()
        await stage.life._on_get(encode(get), respond, 0.4)

    loop = stage.clock.new_event_loop()
    stage.clock.wait_for(stage.clock.start(lambda: loop.run_until_complete(ask_in_vain())))
    loop.close()

    assert (answers, stage.clock.monotonic_s()) == ([NOT_HERE], pytest.approx(0.05))
