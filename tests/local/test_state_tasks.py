"""Databases of state on Fargate in the local run: `docs/use/state.md`, "What survives", with real tasks and servers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis
from redis import Redis

from burstcache.state import DatabaseAsleepError, LeaseLostError, connect, state
from burstcache_local.cloud import LocalCloud
from support.roles import holder_of
from support.state_tasks import Tasks, options_for_tasks

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCloud]:
    with LocalCloud(options_for_tasks(tmp_path_factory.mktemp("logs"), StateDatabases="orders,carts")) as running:
        yield running


@pytest.fixture(scope="module")
def where(cloud: LocalCloud) -> dict[str, Any]:
    """The stack, as the arguments of a holder name it."""
    return holder_of(cloud)


@pytest.fixture
def tasks(cloud: LocalCloud) -> Iterator[Tasks]:
    tasks = Tasks(cloud)
    yield tasks
    for database in ("orders", "carts"):
        tasks.await_sleep(database)


def _written_until_lost(client: Redis, key: str, end: Callable[[], object]) -> int:
    """Write numbered keys until the lease is lost, end the task after ten, and return how many were acknowledged."""
    acknowledged = 0
    while True:
        try:
            client.set(f"{key}-{acknowledged}", acknowledged)
        except LeaseLostError:
            return acknowledged
        except redis.RedisError:
            time.sleep(0.1)  # it is shut out, and learns soon that its lease is lost
        else:
            acknowledged += 1
            if acknowledged == 10:
                end()


def test_a_holder_finds_what_was_written_before_the_database_slept(where: dict[str, Any], tasks: Tasks) -> None:
    with state("orders", **where) as client:
        client.set("written", "before it slept")
        first = client.connection_pool.connection_kwargs["host"]
        assert (tasks.phase("orders"), tasks.phase("carts")) == ("running", "stopped")
    with pytest.raises(LeaseLostError, match="was released"):
        client.ping()
    tasks.await_sleep("orders")
    assert tasks.running() == []

    with state("orders", decode_responses=True, **where) as client:
        assert client.get("written") == "before it slept"
        assert client.connection_pool.connection_kwargs["host"] != first

    tasks.await_sleep("orders")
    assert len(tasks.snapshots("orders")) == 1  # the second holder has changed nothing


@pytest.mark.parametrize("ends_by", ["interruption", pytest.param("hand", marks=pytest.mark.weekly)])
def test_a_task_that_ends_while_it_is_held_has_saved_all_that_was_acknowledged(
    cloud: LocalCloud, where: dict[str, Any], tasks: Tasks, ends_by: str
) -> None:
    end = cloud.interrupt_tasks if ends_by == "interruption" else tasks.stop
    acknowledged = 0

    def work() -> None:
        nonlocal acknowledged
        with state("orders", **where) as client:
            acknowledged = _written_until_lost(client, ends_by, end)

    with pytest.raises(LeaseLostError):
        work()

    assert acknowledged >= 10
    with state("orders", decode_responses=True, **where) as client:
        assert client.mget([f"{ends_by}-{n}" for n in range(acknowledged)]) == [str(n) for n in range(acknowledged)]


@pytest.mark.weekly
def test_a_killed_task_leaves_the_last_completed_save(cloud: LocalCloud, where: dict[str, Any], tasks: Tasks) -> None:
    with state("carts", **where) as client:
        client.set("written", "saved")
    tasks.await_sleep("carts")

    def work() -> None:
        with state("carts", **where) as client:
            _written_until_lost(client, "killed", lambda: cloud.interrupt_tasks(notice_s=0))

    with pytest.raises(LeaseLostError):
        work()

    with state("carts", decode_responses=True, **where) as client:
        assert client.get("written") == "saved"
        assert client.keys("killed-*") == []


def test_databases_are_apart_and_refuse_holders_of_each_other(where: dict[str, Any], tasks: Tasks) -> None:
    with state("orders", **where) as orders, state("carts", **where) as carts:
        assert len(tasks.running()) == 2
        orders.set("mine", "of orders")
        assert carts.get("mine") is None
        strayed = {**orders.connection_pool.connection_kwargs, "host": carts.connection_pool.connection_kwargs["host"]}
        pool = redis.ConnectionPool(connection_class=orders.connection_pool.connection_class, **strayed)

        with Redis.from_pool(pool) as stranger, pytest.raises(redis.AuthenticationError):
            stranger.ping()


@pytest.mark.weekly
def test_a_client_without_a_lease_follows_the_address(where: dict[str, Any], tasks: Tasks) -> None:
    client = connect("carts", decode_responses=True, **where)
    addresses = set()
    for number in (1, 2):
        with state("carts", **where) as holder:
            assert client.incr("steps") % 2 == number % 2
            addresses.add(holder.connection_pool.connection_kwargs["host"])
        tasks.await_sleep("carts")

    assert len(addresses) == 2
    with client, pytest.raises(DatabaseAsleepError, match="'carts' is stopped"):
        client.ping()


def test_a_task_has_the_permissions_that_its_work_takes(cloud: LocalCloud, where: dict[str, Any], tasks: Tasks) -> None:
    for _ in range(2):
        with state("orders", **where) as client:
            client.incr("held")
        tasks.await_sleep("orders")

    role = cloud.physical_ids["StateTaskRole"]
    used = {grant for name, grant in cloud.guard.used if name == role}
    assert {grant.action for grant in cloud.guard.granted(role) - used} <= {
        "states:SendTaskFailure",  # Redis answers in every task here
        "s3:DeleteObject",  # of the fourth snapshot
    }
