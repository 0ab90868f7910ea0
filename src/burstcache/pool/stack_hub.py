"""A hub of a stack: it invokes the stack's members, has them copied, and reports to pool control."""

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
from burstcache.pool.backup import Backups
from burstcache.pool.heartbeat import Heartbeat, Seen, connected_to
from burstcache.pool.hub import Hub


@dataclass(frozen=True, slots=True, kw_only=True)
class HubPlace:
    """Where a hub listens, and who gets in.

    Attributes:
        host: The address that members dial, and readers if it takes any.
        port: 0: any that is free.
        token: What members know.
        takes_readers: Whether readers get in by the same token, since members cannot dial them.
        tls: Has the certificate that is trusted; None: without TLS.
        certificate: The same as PEM.
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
) -> AsyncIterator[tuple[Hub, Heartbeat, Seen]]:
    """Run a hub, from its first report until the end.

    Args:
        place: Where it listens.
        clients: Reaches Lambda.
        member_function_name: By name or ARN.
        control_function_name: By name or ARN.

    Yields:
        The hub, its reports, and what is in them.

    Raises:
        ServiceError: Lambda refuses the first report, or cannot be asked.
        FunctionFailedError: Pool control fails at it.
        OSError: The address is not this machine's, or the port is taken.
    """
    invoke = wake_by_name(clients.like("wakes").functions, member_function_name)
    hub = Hub(place.token, place.token if place.takes_readers else None, invoke)
    port = await hub.start(place.host, place.port, place.tls, certificate=place.certificate)

    def follow(plan: PoolPlan) -> None:
        if hub.neighbours:
            hub.neighbours.follow(plan["hubs"])

    seen = Seen()
    heartbeat = Heartbeat(
        invoke_by_name(clients.functions, control_function_name),
        KnownHub(id=hub.id, host=place.host, port=port, token=place.token.hex(), certificate=place.certificate),
        seen,
        connected=partial(connected_to, hub, seen),
        takes_readers=place.takes_readers,
    )
    heartbeat.follow(follow)
    try:
        await heartbeat.report()
    except BaseException:
        await hub.stop()
        raise
    backups = Backups(hub).run(lambda: heartbeat.plan["backup_s"])
    tasks = [asyncio.create_task(work) for work in (heartbeat.run(), backups)]
    try:
        yield hub, heartbeat, seen
    finally:
        for task in tasks:
            task.cancel()
        await hub.stop()  # before the last report, which has then what members were billed for
        await heartbeat.leave()
