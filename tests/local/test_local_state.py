"""Databases of state in the local run: real Redis servers on instances that boot for a holder, stop after the last."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
from redis import Redis

from burstcache.access import RedisAccess
from burstcache.adapters.redis_connection import connect as redis_at
from burstcache.core.errors import InvalidSettingError, NodeAbsentError
from burstcache.state import DatabaseAsleepError, LeaseLostError, async_state, connect, state
from burstcache_local.cloud import LocalCloud, LocalOptions
from support.redis_in_process import NO_SECRETS
from support.roles import holder_of
from support.waiting import LIMIT_S, until

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCloud]:
    """A stack with two databases that fall asleep a second after their last holder."""
    parameters = {"Relay": "none", "StateDatabases": "orders,carts", "StateGraceS": "1"}
    folder: Path = tmp_path_factory.mktemp("logs")
    quick = {"PolicyOverrides": "redis_check_s=1"}
    with LocalCloud(LocalOptions(boot_s=0.2, stop_s=0.2, run_dir=folder, parameters=parameters | quick)) as running:
        yield running


@pytest.fixture(scope="module")
def where(cloud: LocalCloud) -> dict[str, Any]:
    """The stack, as the arguments of a holder name it."""
    return holder_of(cloud)


def _phase(cloud: LocalCloud, database: str) -> str:
    asked = cloud.invoke("StateFunction", {"op": "release", "database": database, "holder": "nobody"})
    return str(asked["phase"])


def test_database_wakes_up_for_a_holder_and_falls_asleep_after_it(cloud: LocalCloud, where: dict[str, Any]) -> None:
    with state("orders", **where) as redis:
        assert redis.incr("orders") == 1
        assert (_phase(cloud, "orders"), _phase(cloud, "carts")) == ("running", "stopped")

    with pytest.raises(LeaseLostError, match="was released"):
        redis.incr("orders")
    until(lambda: _phase(cloud, "orders") == "stopped")


@pytest.mark.weekly
def test_what_a_holder_has_written_the_next_one_reads_after_the_database_has_slept(
    cloud: LocalCloud, where: dict[str, Any]
) -> None:
    with state("carts", **where) as redis:
        redis.set("written", "before it slept")
    until(lambda: _phase(cloud, "carts") == "stopped")

    with state("carts", decode_responses=True, **where) as redis:
        assert redis.get("written") == "before it slept"

    listed = cloud.client("s3").list_objects_v2(Bucket=cloud.outputs["StateBucketName"], Prefix="state-carts/")
    assert listed["KeyCount"] == 1  # the second holder has changed nothing


def test_an_instance_that_a_person_stops_is_saved_before(cloud: LocalCloud, where: dict[str, Any]) -> None:
    def work() -> None:
        with state("carts", **where) as redis:
            redis.set("written", "before it was stopped")
            cloud.client("ec2").stop_instances(InstanceIds=[instance_id])
            until(lambda: _phase(cloud, "carts") == "stopped")
            until(lambda: _is_lost(redis))

    instance_id = cloud.outputs["StateNodes"].partition("state-carts=")[2].partition("@")[0]
    with pytest.raises(LeaseLostError, match="its node"):
        work()

    with state("carts", **where) as redis:
        assert redis.get("written") == b"before it was stopped"


def _is_lost(client: Redis) -> bool:
    try:
        client.ping()
    except LeaseLostError:
        return True
    except redis.ConnectionError:
        pass
    return False


def test_two_holders_share_a_database(cloud: LocalCloud, where: dict[str, Any]) -> None:
    async def work() -> bytes | str | None:
        async with async_state("orders", **where) as redis:
            with state("orders", **where) as other:
                other.set("from", "the other")
            return await redis.get("from")

    assert asyncio.run(asyncio.wait_for(work(), LIMIT_S)) == b"the other"


def test_database_refuses_what_it_has_no_room_for(cloud: LocalCloud, where: dict[str, Any]) -> None:
    with state("carts", **where) as client, connect("carts", **where) as other:
        other.set("kept", "x")
        assert client.get("kept") == b"x"
        assert client.info("memory")["maxmemory_policy"] == "noeviction"


def test_holder_of_a_database_that_the_stack_lacks_learns_which_it_has(where: dict[str, Any]) -> None:
    with pytest.raises(NodeAbsentError, match="no database 'order'.* orders, carts"), state("order", **where):
        pass


def test_holder_that_does_not_wait_long_enough_gives_its_lease_back(cloud: LocalCloud, where: dict[str, Any]) -> None:
    until(lambda: _phase(cloud, "carts") == "stopped")

    with pytest.raises(DatabaseAsleepError, match="after 0 s"), state("carts", wait_s=0, **where):
        pass

    until(lambda: _phase(cloud, "carts") == "stopped")


def test_holder_without_a_stack_learns_what_is_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BURSTCACHE_STATE", raising=False)

    with pytest.raises(InvalidSettingError, match="stack=…, local=…, or the environment"), state("orders"):
        pass


def test_stranger_is_refused(cloud: LocalCloud, where: dict[str, Any]) -> None:
    address = cloud.outputs["StateNodes"].partition("@")[2].partition(":")[0]
    access = RedisAccess(ca_pem=json.loads(cloud.outputs["StateSettings"])["STATE_CA_PEM"])

    stranger = redis_at(address, 6379, access, NO_SECRETS)

    with state("orders", **where), stranger, pytest.raises(redis.AuthenticationError):
        stranger.ping()
