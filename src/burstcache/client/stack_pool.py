"""The pool of a stack, with its hub in this process. Lambda starts the members, and they dial this machine."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import socket
import ssl
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from urllib.parse import urlsplit

from burstcache.access import ExpressAccess
from burstcache.adapters.clients import Clients
from burstcache.adapters.clock import Clock
from burstcache.client.pool_limits import READ_LIMIT_S, pool_pays_within_s
from burstcache.core.messages.pool_control import PoolPlan
from burstcache.pool.open_pool import OpenPool
from burstcache.pool.reader import PoolReader
from burstcache.pool.stack_hub import HubPlace, stack_hub
from burstcache.settings.pool import PoolAccess


@contextlib.asynccontextmanager
async def open_stack_pool(
    access: PoolAccess, worth: ExpressAccess, clients: Clients, clock: Clock
) -> AsyncIterator[OpenPool]:
    """Open the pool of a stack, and leave it on exit.

    Args:
        access: The pool's functions.
        worth: Value of a saved wait for S3, and the pricing region.
        clients: AWS clients, for Lambda.
        clock: Clock for the validity of the hub's certificate.

    Raises:
        ServiceError: Lambda rejects a call, or is unreachable.
        FunctionFailedError: Pool control fails.
        OSError: This machine has no network address.
    """
    host = await asyncio.to_thread(own_address, clients.functions.meta.endpoint_url)
    tls, certificate = _tls(clock) if access.demands_tls else (None, "")
    place = HubPlace(host=host, token=secrets.token_bytes(32), tls=tls, certificate=certificate)
    names = access.member_function_name, access.control_function_name
    async with stack_hub(place, clients, *names) as (hub, heartbeat, counters):
        reader = PoolReader(hub, (), READ_LIMIT_S)

        def apply_plan(plan: PoolPlan) -> None:
            reader.members = tuple(plan["members"])

        heartbeat.subscribe(apply_plan)
        pays_within_s = pool_pays_within_s(access, worth, heartbeat.redundancies[0])
        yield OpenPool(reader, lambda: heartbeat.redundancies, counters, pays_within_s)


def own_address(url: str) -> str:
    """Return this machine's IPv4 address on the route to a URL's host. Members in the same network dial it.

    Raises:
        OSError: There is no route.
    """
    parts = urlsplit(url)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((parts.hostname or "", parts.port or 443))  # sends nothing
        return str(probe.getsockname()[0])


def _tls(clock: Clock) -> tuple[ssl.SSLContext, str]:
    from burstcache.pool.certificate import hub_tls  # imports `cryptography`

    return hub_tls(datetime.fromtimestamp(clock.now_us() / 1e6, UTC))
