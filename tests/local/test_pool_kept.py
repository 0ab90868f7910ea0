"""The pool as it is deployed: a hub here, members and their control in the local run, reclaims, and the end."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from burstcache.adapters.functions import invoke_by_name
from burstcache.adapters.items import to_values
from burstcache.adapters.members import wake_by_name
from burstcache.adapters.pool_table import PoolRows, PoolTable
from burstcache.core.messages.pool_control import KnownHub
from burstcache.core.pool.slices import PooledObject
from burstcache.core.table import POOL_STATE_ITEM
from burstcache.pool.certificate import hub_tls
from burstcache.pool.heartbeat import Heartbeat, HubCounters, take_used_members
from burstcache.pool.hub import Hub
from burstcache.pool.reader import PoolReader
from burstcache_local.cloud import LocalCloud, LocalOptions
from support.pool import TOKEN
from support.project import ROOT
from support.waiting import LIMIT_S, eventually, until

_MEMBERS = 8
_BODY = random.Random(7).randbytes(1_000_003)


@pytest.fixture(scope="module")
def cloud() -> Iterator[LocalCloud]:
    parameters = {"PoolMembers": str(_MEMBERS), "PoolMemoryMb": "512", "Relay": "none", "RedisNodeCount": "0"}
    with LocalCloud(LocalOptions(parameters=parameters)) as running:
        yield running


@pytest.fixture
def table(cloud: LocalCloud) -> PoolTable:
    return PoolTable(cloud.outputs["TableName"], cloud.client("dynamodb"))


def _executions(cloud: LocalCloud, status: Any) -> list[str]:
    states, machine = cloud.client("stepfunctions"), cloud.outputs["PoolArn"]
    listed = states.list_executions(stateMachineArn=machine, statusFilter=status)
    return [execution["executionArn"] for execution in listed["executions"]]


async def _with_hub(cloud: LocalCloud, work: Callable[[Heartbeat, PoolReader, HubCounters], Awaitable[None]]) -> None:
    """Run a hub that wakes members and reports, until they have gone to sleep."""
    functions, seen = cloud.client("lambda"), HubCounters()
    control = invoke_by_name(functions, cloud.physical_ids["PoolControlFunction"])
    hub = Hub(TOKEN, invoke=wake_by_name(functions, cloud.physical_ids["PoolMemberFunction"]))
    tls, certificate = hub_tls(datetime.now(UTC))
    port = await hub.start("127.0.0.1", tls=tls, certificate=certificate)
    known = KnownHub(id=hub.id, host="127.0.0.1", port=port, token=TOKEN.hex(), certificate=certificate)
    heartbeat = Heartbeat(control, known, seen, connected=lambda: take_used_members(hub, seen))
    try:
        plan = await heartbeat.report()
        await work(heartbeat, PoolReader(hub, plan["members"], LIMIT_S), seen)
        await eventually(lambda: not hub.members)
    finally:
        await hub.stop()
        await heartbeat.leave()


def _let_time_pass(cloud: LocalCloud, *columns: str) -> None:
    """Have what the pool's state has an instant for be due now."""
    cloud.client("dynamodb").update_item(
        TableName=cloud.outputs["TableName"],
        Key=to_values(POOL_STATE_ITEM),
        UpdateExpression="SET " + ", ".join(f"{column} = :past" for column in columns),
        ExpressionAttributeValues=to_values({":past": 1}),
    )


def _invoked_again(cloud: LocalCloud, table: PoolTable) -> PoolRows:
    """Have every member invoked, although hubs have used some a moment ago."""
    rows = table.read()
    for hub in rows.hubs:
        table.put_hub(replace(hub, used={}), hub.reported_at_us)
    table.claim_round(rows.state, rows.state.warmed_at_us - 60_000_000)
    control = invoke_by_name(cloud.client("lambda"), cloud.physical_ids["PoolControlFunction"])
    assert control({"op": "round"}) == {"did_run": True}
    return table.read()


def test_self_test_of_the_stack_covers_control_and_a_member(cloud: LocalCloud) -> None:
    event = json.loads((ROOT / "events/self_test/self_test.json").read_text())

    tried = cloud.invoke("SelfTestFunction", event)["tried"]

    control = cloud.physical_ids["PoolControlFunction"]
    parts = {each["part"]: each["problem"] for each in tried if each["function"] == control}
    assert parts == {"table": "", "machine pool": "", "member pool-0": ""}


def test_pool_is_kept_from_its_first_chunk_until_nothing_is_stored(cloud: LocalCloud, table: PoolTable) -> None:
    async def store(heartbeat: Heartbeat, reader: PoolReader, seen: HubCounters) -> None:
        object_ = PooledObject("hash", "v1", len(_BODY), heartbeat.redundancies[0])
        assert await reader.write(object_, memoryview(_BODY)) == []
        assert _executions(cloud, "RUNNING") == []
        seen.stored_bytes += len(_BODY)
        await heartbeat.report()
        await eventually(lambda: table.read().state.totals.rounds)

    asyncio.run(_with_hub(cloud, store))
    (execution,) = _executions(cloud, "RUNNING")
    before = _invoked_again(cloud, table)
    assert len(before.members) == _MEMBERS
    assert all(member.stored_bytes and not member.is_silent for member in before.members.values())
    assert before.state.totals.stored_bytes == len(_BODY)
    assert before.state.totals.served_ms > 0

    (reclaimed,) = cloud.reclaim(1)
    after = _invoked_again(cloud, table)
    others = {name: member.environment for name, member in before.members.items() if name != reclaimed}
    assert [count for _, count in after.reclaims.recent] == [1]
    assert after.members[reclaimed].environment != before.members[reclaimed].environment
    assert others.items() <= {name: member.environment for name, member in after.members.items()}.items()

    async def ask_for_what_is_lost(heartbeat: Heartbeat, reader: PoolReader, seen: HubCounters) -> None:
        seen.hits += 1
        await heartbeat.report()

    cloud.reclaim(2 * _MEMBERS)
    cloud.client("stepfunctions").stop_execution(executionArn=execution)
    _let_time_pass(cloud, "warmed_at_us", "deadline_at_us")
    asyncio.run(_with_hub(cloud, ask_for_what_is_lost))
    (ended,) = until(lambda: _executions(cloud, "SUCCEEDED"))
    output = cloud.client("stepfunctions").describe_execution(executionArn=ended)["output"]
    assert ended != execution
    assert json.loads(output) == {"ended": "nothing was stored any more"}
    assert _executions(cloud, "RUNNING") == []
