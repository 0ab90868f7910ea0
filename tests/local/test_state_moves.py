"""Moves of a state database between an instance and a task: each finds what the other saved."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from support.state_rig import Program, StateRig
from support.state_task_rig import Database

pytestmark = pytest.mark.slow


@pytest.fixture
def closers() -> Iterator[ExitStack]:
    with ExitStack() as closers:
        yield closers


def test_a_move_to_a_task_and_back_keeps_everything_that_was_saved(closers: ExitStack) -> None:
    program = Program(closers)
    instance = StateRig(program, closers)
    instance.boots()
    instance.write(1)
    instance.stops()
    instance.lose_volume()

    task = Database(program, closers, node=instance.node, run=instance.run + 1).task()
    task.await_redis()
    with task.client() as client:
        on_task = client.get("key-0")
        client.set("key-0", 2)
        client.set("key-1", 2)
    task.stop()
    instance.run += 1
    back = instance.boots()

    assert on_task == b"1"
    assert back == {1, 2}
    with instance.holder() as holder:
        assert holder.mget("key-0", "key-1", "key-2") == [b"2", b"2", b"1"]
    runs = [name.rpartition("/")[2].partition("-")[0] for name in instance.snapshots()]
    assert runs == ["000000000001001", "000000000001002"]
