"""A hub as a service in its own process, for readers that members cannot dial.

Start it with `python -m burstcache.pool.hub_service`. On SIGTERM it sends a last report to pool control and exits.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import signal
from collections.abc import Mapping
from urllib.request import urlopen

from burstcache.adapters.clients import Clients
from burstcache.logs import logger
from burstcache.pool.stack_hub import HubPlace, stack_hub
from burstcache.pool.tls import server_tls
from burstcache.settings.hub import HubSettings

_METADATA_LIMIT_S = 5.0


async def serve(settings: HubSettings, clients: Clients, host: str, stopped: asyncio.Event) -> None:
    """Run a hub until the event is set.

    Args:
        settings: The hub's settings.
        clients: AWS clients, for Lambda.
        host: The address that members and readers dial.
        stopped: The event that stops the hub.

    Raises:
        ServiceError: Lambda rejects the first report, or is unreachable.
        FunctionFailedError: Pool control fails at the first report.
        OSError: The port is in use.
    """
    tls, certificate = (server_tls(settings.tls_pem.encode()), settings.ca_pem) if settings.tls_pem else (None, "")
    place = HubPlace(
        host=host,
        port=settings.port,
        token=secrets.token_bytes(32),
        takes_readers=True,
        tls=tls,
        certificate=certificate,
    )
    names = settings.member_function_name, settings.control_function_name
    async with stack_hub(place, clients, *names) as (hub, _, _):
        logger().info("hub", host=host, port=settings.port, id=hub.id)
        await stopped.wait()


def address_in(environ: Mapping[str, str]) -> str:
    """Return the address that members and readers dial: the configured address, or else the ECS task's.

    Raises:
        OSError: ECS does not return the task's address.

    Source:
        Amazon ECS Developer Guide, "Amazon ECS task metadata endpoint version 4 for tasks on Fargate".
    """
    if host := environ.get("HUB_HOST", ""):
        return host
    with urlopen(environ["ECS_CONTAINER_METADATA_URI_V4"], timeout=_METADATA_LIMIT_S) as answer:
        network, *_ = json.load(answer)["Networks"]
    return str((network.get("IPv4Addresses") or network["IPv6Addresses"])[0])


async def _run() -> None:
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    host = await asyncio.to_thread(address_in, os.environ)
    await serve(HubSettings.read(os.environ), Clients("control"), host, stopped)


if __name__ == "__main__":
    asyncio.run(_run())
