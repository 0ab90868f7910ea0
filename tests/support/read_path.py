"""Surroundings of the read path in its tests: the stack's AWS resources, a node, stand-ins for cache functions."""

from __future__ import annotations

import asyncio
import hashlib
import json
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import nats
import redis as redis_py

from burstcache.adapters.clients import Clients
from burstcache.adapters.digest_table import DigestTable
from burstcache.core.keys import key_hash
from burstcache.core.phases import KeyPhase, NodePhase, Tier
from burstcache.core.rows import KeyRow, NodeRow
from burstcache.handlers.proxy import make_proxy
from burstcache.settings.proxy import ProxySettings
from burstcache.web.entry import Entry, encode_meta
from support.aws import BUCKET, TABLE, clients
from support.clock import ManualClock
from support.servers import RedisServer
from support.waiting import LIMIT_S

PASSWORDS = {"proxy": "proxy's password", "cache": "cache's password", "control": "control's password"}

MakeEntry = Callable[..., Entry]


class Environment:
    """Execution environment of the proxy. Its clock moves only when a test moves it."""

    def __init__(self, set_variable: Callable[[str, str], None], variables: Mapping[str, str]) -> None:
        self.clock = ManualClock(time.time())
        self.reported: list[dict[str, Any]] = []  # events sent to the bus
        self._set_variable, self._variables = set_variable, dict(variables)
        self._start()

    def __call__(self, **variables: str) -> None:
        """Set variables and start a fresh environment."""
        self.close()
        self._variables |= variables
        self._start()

    def close(self) -> None:
        """Close the connections to the tiers."""
        self.reader.close()

    def _start(self) -> None:
        for name, value in self._variables.items():
            self._set_variable(name, value)
        self.settings, self.clients = ProxySettings.read(self._variables), Clients("read")
        self.clients.events.meta.events.register("provide-client-params.eventbridge.PutEvents", self._note)
        self.proxy = make_proxy(self.settings, self.clients, self.clock)
        self.reader = self.proxy.reader

    def _note(self, params: Mapping[str, Any], **_: object) -> None:
        self.reported += [json.loads(entry["Detail"]) for entry in params["Entries"]]


@dataclass
class Cloud:
    """The stack's AWS resources and the proxy in front of them."""

    environment: Environment
    _lives: int = 0

    @property
    def clock(self) -> ManualClock:
        """The proxy's clock."""
        return self.environment.clock

    def put(self, key: str, body: bytes, **more: Any) -> str:
        clients().s3.put_object(Bucket=BUCKET, Key=key, Body=body, **more)
        return key_hash(key)

    def delete(self, key: str) -> None:
        clients().s3.delete_object(Bucket=BUCKET, Key=key)

    def route(self, key: str, tier: Tier = "", generation: int = 0, deadline_at_us: int = 2**62) -> None:
        """Set a key's route in the digest."""
        phase: KeyPhase = "redis_running" if tier == "redis" else "lambda" if tier else "s3"
        self._lives += 1
        row = KeyRow(key_hash(key), key, phase, self._lives, tier=tier, node="node-1", generation=generation)
        assert DigestTable(TABLE, clients().dynamodb).show_key(replace(row, deadline_at_us=deadline_at_us))

    def node(self, phase: NodePhase, generation: int, *, name: str = "node-1", peers: tuple[str, ...] = ()) -> None:
        """Show a node in the digest. A node with peers accepts guests."""
        assert DigestTable(TABLE, clients().dynamodb).show_node(NodeRow(name, phase, generation, peers=peers))

    def get(self, key: str, method: str = "GET", **headers: str) -> dict[str, Any]:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        context = {"http": {"method": method}, "requestId": "request-1=", "stage": "$default"}
        event = {"version": "2.0", "rawPath": f"/objects/{key}", "headers": named, "requestContext": context}
        return self.environment.proxy.handle(event, None)


# The ETag of "from S3", the object that S3 has under the tests' keys. Readers see both as one version.
ETAG = f'"{hashlib.md5(b"from S3", usedforsecurity=False).hexdigest()}"'


def entry_of(body: bytes, **meta: str) -> Entry:
    named = {name.replace("_", "-"): value for name, value in meta.items()}
    fixed = {"etag": ETAG, "last-modified": "Sun, 06 Nov 1994 08:49:37 GMT", "content-length": str(len(body))}
    return Entry({**fixed, **named}, body)


@dataclass
class Node:
    """Running Redis node and a client to inspect it."""

    server: RedisServer
    client: redis_py.Redis

    def seed(self, key: str, entry: Entry) -> None:
        self.client.hset(f"object:{key_hash(key)}", mapping={"meta": encode_meta(entry.meta), "body": entry.body})

    def recent(self, key: str) -> list[int]:
        return [int(time_us) for time_us in self.client.lrange(f"recent:{key_hash(key)}", 0, -1)]


class Holder:
    """Stand-in for a cache function. It answers `get.<hash>` with an entry, in its own thread."""

    def __init__(self, port: int, key: str, answer: bytes | None) -> None:
        self.seen: list[dict[str, Any]] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._run(self._subscribe(port, key, answer))

    def leave(self) -> None:
        """Stop answering for the key."""
        self._run(self._subscription.unsubscribe())
        self._run(self._client.flush())

    def close(self) -> None:
        self._run(self._client.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _run(self, coroutine: Any) -> None:
        asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(LIMIT_S)

    async def _subscribe(self, port: int, key: str, answer: bytes | None) -> None:
        self._client = await nats.connect(f"nats://127.0.0.1:{port}", user="cache", password=PASSWORDS["cache"])

        async def serve(message: Any) -> None:
            self.seen.append(json.loads(message.data))
            if answer is not None:
                await message.respond(answer)

        self._subscription = await self._client.subscribe(f"get.{key_hash(key)}", queue=key_hash(key), cb=serve)
        await self._client.flush()


Relay = Callable[[str, bytes | Entry | None], Holder]  # creates the holder of a key with its answer; None: silence
