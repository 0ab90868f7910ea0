"""Programs of a state database's task, with a real Redis: its restore, its saves and its end."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import pairwise

import pytest
import redis

from support.state_rig import Program, StateRig
from support.state_task_rig import Database, Task
from support.waiting import LIMIT_S, until

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def program() -> Iterator[Program]:
    with ExitStack() as closers:
        yield Program(closers)


@pytest.fixture
def make_database(program: Program) -> Iterator[Callable[[], Database]]:
    with ExitStack() as closers:
        yield lambda: Database(program, closers)


@pytest.fixture
def database(make_database: Callable[[], Database]) -> Database:
    return make_database()


def _write(task: Task, value: str) -> None:
    with task.client() as client:
        client.set("written", value)


def _read(task: Task) -> str:
    task.await_redis()
    with task.client() as client:
        return str((client.get("written") or b"").decode())


def test_a_task_has_what_its_predecessor_saved_at_its_end(database: Database) -> None:
    first = database.task()
    assert _read(first) == ""
    _write(first, "before the stop")
    first.stop()

    assert _read(database.task()) == "before the stop"


@pytest.mark.weekly
def test_snapshots_are_named_by_the_run_of_their_task(database: Database) -> None:
    runs = [database.task(), database.task()]  # both of an old run and of a new one
    for number, task in enumerate(runs):
        task.await_redis()
        _write(task, f"by task {number}")
    for task in reversed(runs):  # the old one saves late
        task.stop()

    assert [name.rpartition("/")[2] for name in database.snapshots()] == [
        "000000000000001-000001.rdb",
        "000000000000002-000001.rdb",
    ]
    assert _read(database.task()) == "by task 1"


@pytest.mark.weekly
def test_redis_goes_on_until_the_keeper_has_saved(database: Database) -> None:
    task = database.task()
    task.await_redis()
    task.ask_redis_to_stop()
    _write(task, "after the signal")
    assert task.redis.poll() is None

    task.keeper.terminate()

    assert (task.redis.wait(LIMIT_S), task.keeper.wait(LIMIT_S)) == (0, 0)
    assert _read(database.task()) == "after the signal"


@pytest.mark.weekly
def test_holders_are_shut_out_before_the_last_save(database: Database) -> None:
    task = database.task()
    task.await_redis()
    with task.client() as holder:
        holder.set("written", "before the stop")
        task.keeper.terminate()
        assert task.keeper.wait(LIMIT_S) == 0

        with pytest.raises((redis.ConnectionError, redis.AuthenticationError)):
            holder.set("written", "after the last save")


def test_a_last_save_that_fails_is_counted_and_repeated(database: Database) -> None:
    task = database.task()
    task.await_redis()
    _write(task, "before the stop")
    database.delete_bucket()
    before = database.program.failures()
    task.keeper.terminate()
    until(lambda: database.program.failures() > before)
    assert not (task.folder / "redis/saved").exists()

    database.create_bucket()

    assert task.keeper.wait(LIMIT_S) == 0
    assert _read(database.task()) == "before the stop"


@pytest.mark.weekly
def test_a_last_save_during_another_one_has_what_was_written_since(database: Database) -> None:
    task = database.task(save_key_us=1_000_000)
    task.await_redis()
    _write(task, "before the first save")
    with ThreadPoolExecutor(1) as pool, task.client() as client:
        saved = pool.submit(task.save)
        until(lambda: client.info("persistence")["rdb_bgsave_in_progress"])
        client.set("written", "since then")

        task.keeper.terminate()

        assert (task.keeper.wait(LIMIT_S), saved.result(LIMIT_S)) == (0, 0)
    assert _read(database.task()) == "since then"


def test_nothing_starts_empty_until_the_database_is_restored(database: Database) -> None:
    database.delete_bucket()
    before = database.program.failures()
    task = database.task()
    until(lambda: database.program.failures() > before)
    assert not task.is_restored
    with task.client() as client, pytest.raises(redis.ConnectionError):
        client.ping()

    database.create_bucket()

    assert _read(task) == ""


def test_a_task_that_ends_before_it_is_restored_saves_nothing(database: Database) -> None:
    database.delete_bucket()
    task = database.task()
    until(lambda: (task.folder / "redis").exists())

    task.stop()

    database.create_bucket()
    assert database.snapshots() == []


@pytest.mark.weekly
def test_a_redis_that_is_killed_starts_again_with_its_last_save(database: Database) -> None:
    task = database.task()
    task.await_redis()
    _write(task, "saved")
    assert task.save() == 0
    _write(task, "not saved")
    with task.client() as client:
        server = client.info("server")["process_id"]
    os.kill(server, signal.SIGKILL)

    assert _read(task) == "saved"
    task.stop()
    assert len(database.snapshots()) == 1


@pytest.mark.weekly
def test_a_database_that_moves_to_a_task_and_back_keeps_what_was_saved(program: Program) -> None:
    with ExitStack() as closers:
        rig = StateRig(program, closers)
        rig.boots()
        rig.write(1)
        rig.stops()
        database = Database(program, closers, name=rig.node.removeprefix("state-"), first_run=rig.run + 1)

        task = database.task()
        task.await_redis()
        with task.client() as client:
            assert client.get("key-0") == b"1"
            client.mset({f"key-{number}": 2 for number in range(20)})
        task.stop()
        rig.lose_volume()
        rig.run += 1

        assert rig.boots() == {2}


def test_a_killed_task_leaves_the_last_completed_save(database: Database) -> None:
    task = database.task()
    task.await_redis()
    _write(task, "saved")
    assert task.save() == 0
    _write(task, "not saved")
    task.kill()

    assert _read(database.task()) == "saved"


@pytest.mark.weekly
def test_a_task_that_nobody_attends_saves_and_ends(database: Database) -> None:
    task = database.task(unattended_s=6)
    task.await_redis(attended=True)
    _write(task, "before it was forgotten")

    assert task.keeper.wait(LIMIT_S) == 0
    task.redis.terminate()  # by ECS, since an essential container has ended
    assert task.redis.wait(LIMIT_S) == 0
    assert _read(database.task()) == "before it was forgotten"


def test_holders_of_another_database_are_refused(make_database: Callable[[], Database]) -> None:
    tasks = [make_database().task() for _ in range(2)]
    for task in tasks:
        task.await_redis()

    for mine, other in pairwise([*tasks, tasks[0]]):
        with mine.client(f"holder-{other.database.name}") as stranger, pytest.raises(redis.AuthenticationError):
            stranger.ping()
        with mine.client("holder") as stranger, pytest.raises(redis.AuthenticationError):
            stranger.ping()


def test_a_full_database_refuses_writes(database: Database) -> None:
    task = database.task()
    task.await_redis()

    with task.client() as client:
        memory = client.info("memory")

    assert (memory["maxmemory_policy"], memory["maxmemory"]) == ("noeviction", 64 << 20)


def test_without_persistence_nothing_is_restored_or_saved(database: Database) -> None:
    first = database.task(persistence="none")
    first.await_redis()
    _write(first, "before the stop")
    first.stop()

    assert _read(database.task(persistence="none")) == ""
    assert database.snapshots() == []
