"""A stack's hub, which invokes and replicates the stack's members and reports to pool control.

Readers run it in their own process (`client.stack_pool`). For readers that members cannot dial, it runs as a separate
service (`hub_service`).
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass
from functools import partial

from burstcache.adapters.clients import Clients
from burstcache.adapters.functions import invoke_by_name
from burstcache.adapters.members import wake_by_name
from burstcache.core.messages.pool_control import KnownHub, PoolPlan
from burstcache.pool.heartbeat import Heartbeat, HubCounters, take_used_members
from burstcache.pool.hub import Hub
from burstcache.pool.replica_schedule import ReplicaSchedule


@dataclass(frozen=True, slots=True, kw_only=True)
class HubPlace:
    """A hub's address and access settings.

    Attributes:
        host: The address that members dial. Readers dial the same address if the hub accepts them.
        port: Port; 0: any free port.
        token: The token of members.
        takes_readers: Whether readers that members cannot dial are accepted, with the same token.
        tls: TLS context with the hub's certificate. None: no TLS.
        certificate: The certificate as PEM.
    """

    host: str
    port: int = 0
    token: bytes
    takes_readers: bool = False
    tls: ssl.SSLContext | None = None
    certificate: str = ""


@contextlib.asynccontextmanager
async def stack_hub(
    place: HubPlace,
    clients: Clients,
    member_function_name: str,
    control_function_name: str,
) -> AsyncIterator[tuple[Hub, Heartbeat, HubCounters]]:
    """Run a hub, from its first report to its last.

    Args:
        place: The hub's address and access settings.
        clients: AWS clients, for Lambda.
        member_function_name: Name or ARN of the members' function.
        control_function_name: Name or ARN of pool control.

    Yields:
        The hub, its heartbeat, and its counters.

    Raises:
        ServiceError: Lambda rejects the first report, or is unreachable.
        FunctionFailedError: Pool control fails at the first report.
        OSError: The address does not belong to this machine, or the port is in use.
    """
    invoke = wake_by_name(clients.like("wakes").functions, member_function_name)
    hub = Hub(place.token, place.token if place.takes_readers else None, invoke)
    port = await hub.start(place.host, place.port, place.tls, certificate=place.certificate)

    def apply_plan(plan: PoolPlan) -> None:
        if hub.peers:
            hub.peers.apply_plan(plan["hubs"])

    counters = HubCounters()
    heartbeat = Heartbeat(
        invoke_by_name(clients.functions, control_function_name),
        KnownHub(id=hub.id, host=place.host, port=port, token=place.token.hex(), certificate=place.certificate),
        counters,
        connected=partial(take_used_members, hub, counters),
        takes_readers=place.takes_readers,
    )
    heartbeat.subscribe(apply_plan)
    try:
        await heartbeat.report()
    except BaseException:
        await hub.stop()
        raise
    replication = ReplicaSchedule(hub).run(lambda: heartbeat.plan["backup_s"])
    tasks = [asyncio.create_task(work) for work in (heartbeat.run(), replication)]
    try:
        yield hub, heartbeat, counters
    finally:
        for task in tasks:
            task.cancel()
        await hub.stop()  # before the last report, which thus includes the billed duration of all invocations
        await heartbeat.leave()
