"""The pool of a stack, with its hub in this process: members are woken by Lambda and dial this machine."""

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
from burstcache.core.messages.pool_control import PoolPlan
from burstcache.core.pool.costs import member_price
from burstcache.core.pool.heat import pays_within_s
from burstcache.core.pool.slices import Redundancy
from burstcache.core.worth import sheet_of_region, wait_usd_from_text
from burstcache.logs import logger
from burstcache.pool.open_pool import OpenPool
from burstcache.pool.reader import PoolReader
from burstcache.pool.stack_hub import HubPlace, stack_hub
from burstcache.settings.pool import PoolAccess

READ_LIMIT_S = 2.0  # of a slice, a cold start included; S3 needs less for most slices


@contextlib.asynccontextmanager
async def open_stack_pool(
    access: PoolAccess, worth: ExpressAccess, clients: Clients, clock: Clock
) -> AsyncIterator[OpenPool]:
    """Open the pool of a stack, and leave it in the end.

    Args:
        access: The pool's functions.
        worth: What a saved wait is worth, and the region whose prices count.
        clients: Reaches Lambda.
        clock: What the hub's certificate is dated by.

    Raises:
        ServiceError: Lambda refuses, or cannot be asked.
        FunctionFailedError: Pool control fails.
        OSError: This machine has no address.
    """
    host = await asyncio.to_thread(own_address, clients.functions.meta.endpoint_url)
    tls, certificate = _tls(clock) if access.demands_tls else (None, "")
    place = HubPlace(host=host, token=secrets.token_bytes(32), tls=tls, certificate=certificate)
    names = access.member_function_name, access.control_function_name
    async with stack_hub(place, clients, *names) as (hub, heartbeat, seen):
        reader = PoolReader(hub, (), READ_LIMIT_S)

        def follow(plan: PoolPlan) -> None:
            reader.members = tuple(plan["members"])

        heartbeat.follow(follow)
        pays_within_s = what_pays_within_s(access, worth, heartbeat.redundancies[0])
        yield OpenPool(reader, lambda: heartbeat.redundancies, seen, pays_within_s)


def what_pays_within_s(access: PoolAccess, worth: ExpressAccess, redundancy: Redundancy) -> float:
    """Return within which time a slice has to be asked for again to be worth its place in the pool [s]."""
    sheet = sheet_of_region(worth.region)
    within_s = pays_within_s(
        member_price(sheet, access.memory_mb),
        redundancy,
        s3_get_usd=sheet.usd("s3-get"),
        hit_value_usd=wait_usd_from_text(worth.hit_value_usd_per_million),
    )
    if not within_s:
        logger().warning(
            "a slice from the pool costs more than the wait for S3 is worth, S3 serves",
            reason=f"HitValueUsdPerMillion is {worth.hit_value_usd_per_million}",
        )
    return within_s


def own_address(url: str) -> str:
    """Return this machine's IPv4 address on the way to a URL's host: members of the same network dial it.

    Raises:
        OSError: There is no such way.
    """
    parts = urlsplit(url)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as way:
        way.connect((parts.hostname or "", parts.port or 443))  # sends nothing
        return str(way.getsockname()[0])


def _tls(clock: Clock) -> tuple[ssl.SSLContext, str]:
    from burstcache.pool.certificate import hub_tls  # with `cryptography`

    return hub_tls(datetime.fromtimestamp(clock.now_us() / 1e6, UTC))
