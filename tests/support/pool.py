"""A pool on loopback: a hub and members in this process, whose stores the test can access."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from burstcache.core.pool.chunk_store import ChunkStore
from burstcache.pool.hub import Hub
from burstcache.pool.member import serve
from burstcache.pool.reader import PoolReader
from custom_resources.certificate import issue_certificate
from support.waiting import eventually

TOKEN = b"the token of one invocation"
READER_TOKEN = b"the token of all readers"
_MEMBER_BYTES = 64 * 1024 * 1024


@dataclass
class LocalPool:
    """Pool whose members can be stopped and started."""

    hub: Hub
    port: int
    stores: dict[str, ChunkStore]
    reader: PoolReader
    tasks: dict[str, asyncio.Task[None]] = field(default_factory=dict)

    async def start(self, name: str) -> None:
        """Start a member with the current contents of its store."""
        self.tasks[name] = asyncio.create_task(serve("127.0.0.1", self.port, name, TOKEN, self.stores[name]))
        await eventually(lambda: name in self.hub.members)

    async def stop(self, name: str) -> None:
        """Disconnect a member and keep its store."""
        channel = self.hub.members[name]
        channel.end()
        await channel.ended
        await self.tasks.pop(name)


def tls_contexts(folder: Path) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Return the TLS contexts of a hub on 127.0.0.1 and of a member. Write the hub's key into `folder`."""
    issued, pem = issue_certificate("127.0.0.1", now=datetime.now(UTC))
    (folder / "hub.pem").write_text(pem)
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server.load_cert_chain(folder / "hub.pem")
    return server, ssl.create_default_context(cadata=issued.ca_pem)


@contextlib.asynccontextmanager
async def running_pool(
    members: int, *, member_bytes: int = _MEMBER_BYTES, limit_s: float = 60
) -> AsyncIterator[LocalPool]:
    """Run a hub with connected members."""
    hub = Hub(TOKEN, READER_TOKEN)
    port = await hub.start("127.0.0.1")
    stores = {f"pool-{number}": ChunkStore(member_bytes) for number in range(members)}
    pool = LocalPool(hub, port, stores, PoolReader(hub, list(stores), limit_s))
    for name in stores:
        await pool.start(name)
    try:
        yield pool
    finally:
        await pool.reader.settle()
        await hub.stop()
        await asyncio.gather(*pool.tasks.values())
