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
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from urllib.request import urlopen

from burstcache.adapters.clients import Clients
from burstcache.adapters.functions import invoke_by_name, wake_by_name
from burstcache.core.messages.pool import Serve
from burstcache.core.messages.pool_control import KnownHub, PoolPlan
from burstcache.logs import logger
from burstcache.pool.backup import Backups
from burstcache.pool.heartbeat import Heartbeat, Seen, connected_to
from burstcache.pool.hub import Hub
from burstcache.settings import HubSettings

_WAKES = 16  # at a time
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
    functions, seen, token = clients.functions, Seen(), secrets.token_bytes(32)
    with ThreadPoolExecutor(_WAKES, thread_name_prefix="burstcache-wake") as threads:
        invoke = wake_by_name(functions, settings.member_function_name, threads)

        async def wake(member: str, event: Serve) -> None:
            seen.invocations += 1
            await invoke(member, event)

        hub = Hub(token, reader_token=token, invoke=wake)
        tls, certificate = (_tls(settings.tls_pem), settings.ca_pem) if settings.tls_pem else (None, "")
        port = await hub.start(host, settings.port, tls, certificate=certificate)

        def follow(plan: PoolPlan) -> None:
            if hub.neighbours:
                hub.neighbours.follow(plan["hubs"])

        heartbeat = Heartbeat(
            invoke_by_name(functions, settings.control_function_name),
            KnownHub(id=hub.id, host=host, port=port, token=token.hex(), certificate=certificate),
            seen,
            connected=partial(connected_to, hub, seen),
            takes_readers=True,
            follow=follow,
        )
        try:
            await heartbeat.report()
            logger().info("hub", host=host, port=port, id=hub.id)
            backups = Backups(hub, wake).run(lambda: heartbeat.plan["backup_s"])
            tasks = [asyncio.create_task(work) for work in (heartbeat.run(), backups)]
            await ended.wait()
            for task in tasks:
                task.cancel()
            await heartbeat.leave()
        finally:
            await hub.stop()


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
