"""A hub in a process of its own, for readers that members cannot dial: `python -m burstcache.pool.hub_service`.

It ends at SIGTERM, after it has told pool control.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import signal
import ssl
import tempfile
from collections.abc import Mapping
from urllib.request import urlopen

from burstcache.adapters.clients import Clients
from burstcache.logs import logger
from burstcache.pool.stack_hub import HubPlace, stack_hub
from burstcache.settings.hub import HubSettings

_METADATA_LIMIT_S = 5.0


async def serve(settings: HubSettings, clients: Clients, host: str, ended: asyncio.Event) -> None:
    """Run a hub until the event.

    Args:
        settings: The hub's.
        clients: Reaches Lambda.
        host: The address that members and readers dial.
        ended: Ends it.

    Raises:
        ServiceError: Lambda refuses the first report, or cannot be asked.
        FunctionFailedError: Pool control fails at it.
        OSError: The port is taken.
    """
    tls, certificate = (_tls(settings.tls_pem), settings.ca_pem) if settings.tls_pem else (None, "")
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
        await ended.wait()


def address_in(environ: Mapping[str, str]) -> str:
    """Return the address that members and readers dial: the one that is set, else the task's own.

    Raises:
        OSError: ECS does not say it.

    Source:
        Amazon ECS Developer Guide, "Amazon ECS task metadata endpoint version 4 for tasks on Fargate".
    """
    if host := environ.get("HUB_HOST", ""):
        return host
    with urlopen(environ["ECS_CONTAINER_METADATA_URI_V4"], timeout=_METADATA_LIMIT_S) as answer:
        network, *_ = json.load(answer)["Networks"]
    return str((network.get("IPv4Addresses") or network["IPv6Addresses"])[0])


def _tls(pem: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    with tempfile.NamedTemporaryFile() as file:  # a context reads files alone; this one is its owner's
        file.write(pem.encode())
        file.flush()
        context.load_cert_chain(file.name)
    return context


async def _run() -> None:
    ended = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    host = await asyncio.to_thread(address_in, os.environ)
    await serve(HubSettings.read(os.environ), Clients("control"), host, ended)


if __name__ == "__main__":
    asyncio.run(_run())
