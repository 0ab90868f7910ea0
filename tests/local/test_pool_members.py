"""Members of the pool under AWS's runtime client: a hub invokes them, and each has environments of its own."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from botocore.exceptions import ClientError

from burstcache.adapters.members import wake_by_name
from burstcache.core.messages.pool import MemberState
from burstcache.core.pool.slices import PooledObject, Redundancy
from burstcache.pool.certificate import hub_tls
from burstcache.pool.hub import Hub
from burstcache.pool.invocations import Invoke
from burstcache.pool.reader import PoolReader
from burstcache_local.cloud import LocalCloud, LocalOptions
from support.pool import TOKEN
from support.waiting import LIMIT_S, eventually

_MEMBERS = [f"pool-{number}" for number in range(8)]
_CODE = Redundancy(4, 2)


@pytest.fixture(scope="module")
def cloud() -> Iterator[LocalCloud]:
    parameters = {"PoolMembers": str(len(_MEMBERS)), "PoolMemoryMb": "512", "Relay": "none", "RedisNodeCount": "0"}
    with LocalCloud(LocalOptions(parameters=parameters)) as running:
        yield running


@pytest.fixture(scope="module")
def function(cloud: LocalCloud) -> str:
    return cloud.physical_ids["PoolMemberFunction"]


@pytest.fixture
def wake(cloud: LocalCloud, function: str) -> Invoke:
    return wake_by_name(cloud.client("lambda"), function)


def answer(cloud: LocalCloud, function: str, member: str) -> dict[str, Any]:
    """Return the state that a member's environment reports."""
    asked = cloud.client("lambda").invoke(FunctionName=function, TenantId=member, Payload=b'{"op": "warm"}')
    state: dict[str, Any] = json.loads(asked["Payload"].read())
    return state


def test_a_cold_pool_keeps_an_object_and_gives_it_to_another_hub_later(wake: Invoke) -> None:
    object_ = PooledObject("hash", "v1", 3_000_003, _CODE)
    body = random.Random(1).randbytes(object_.size_bytes)

    async def with_hub(work: Callable[[PoolReader, Hub], Awaitable[bytes | None]]) -> bytes | None:
        tls, certificate = hub_tls(datetime.now(UTC))
        hub = Hub(TOKEN, invoke=wake)
        await hub.start("127.0.0.1", tls=tls, certificate=certificate)
        try:
            return await work(PoolReader(hub, _MEMBERS, LIMIT_S), hub)
        finally:
            await hub.stop()

    async def write(reader: PoolReader, hub: Hub) -> None:
        assert await reader.write(object_, memoryview(body)) == []
        await eventually(lambda: not hub.members)  # staying no longer pays

    async def read(reader: PoolReader, hub: Hub) -> bytes:
        room = memoryview(bytearray(object_.size_bytes))
        assert await reader.read(object_, room) == []
        return bytes(room)

    asyncio.run(with_hub(write))
    assert asyncio.run(with_hub(read)) == body


def test_a_member_says_what_it_has(cloud: LocalCloud, function: str) -> None:
    state = answer(cloud, function, "pool-97")

    assert state.keys() == MemberState.__annotations__.keys()
    assert (state["chunks"], state["stored_bytes"], state["served"]) == (0, 0, 0)


def test_a_member_has_the_same_environment_again_and_says_so(cloud: LocalCloud, function: str) -> None:
    environments = [answer(cloud, function, "pool-98")["environment"] for _ in range(6)]

    assert len(set(environments)) == 1
    assert answer(cloud, function, "pool-99")["environment"] not in environments


@pytest.mark.parametrize("kind", ["RequestResponse", "Event", "DryRun"])
def test_a_member_is_not_invoked_without_a_tenant(cloud: LocalCloud, function: str, kind: Any) -> None:
    with pytest.raises(ClientError, match=r"InvalidParameterValueException.*Add a valid tenant ID"):
        cloud.client("lambda").invoke(FunctionName=function, InvocationType=kind, Payload=b'{"op": "warm"}')


def test_another_function_takes_no_tenant(cloud: LocalCloud) -> None:
    with pytest.raises(ClientError, match=r"InvalidParameterValueException.*Remove the tenant ID"):
        cloud.client("lambda").invoke(FunctionName=cloud.physical_ids["ProxyFunction"], TenantId="pool-0")


def test_what_a_member_does_not_know_is_an_error_that_names_it(cloud: LocalCloud, function: str) -> None:
    asked = cloud.client("lambda").invoke(FunctionName=function, TenantId="pool-0", Payload=b'{"op": "sing"}')

    assert json.loads(asked["Payload"].read())["errorMessage"] == "op 'sing': expected serve or warm"
