"""Fixtures of the read path (conftest): in-process AWS by moto, a real Redis and a real NATS server on loopback."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis as redis_py

from benchmarks.support.variables import VARIABLES
from burstcache.web.entry import Entry, encode
from support.aws import BUCKET, BUS, TABLE, clients, make_stack, mocked_aws
from support.read_path import PASSWORDS, Cloud, Environment, Holder, MakeEntry, Node, Relay, entry_of
from support.servers import RedisServer, ServerProcess
from support.waiting import free_port


@pytest.fixture
def redis_server() -> Iterator[RedisServer]:
    with RedisServer(options=["--requirepass", "redis password"]) as server:
        yield server


def nats_binary() -> str:
    installed = Path(sys.executable).parent / "nats-server"
    return str(installed) if installed.exists() else shutil.which("nats-server") or "nats-server"


@pytest.fixture
def nats_server(tmp_path: Path) -> Iterator[ServerProcess]:
    port, config = free_port(), tmp_path / "nats.conf"
    users = ",".join(f'{{user: {user}, password: "{word}"}}' for user, word in PASSWORDS.items())
    config.write_text(f"listen: 127.0.0.1:{port}\nmax_payload: 8MB\nauthorization: {{users: [{users}]}}\n")
    with ServerProcess([nats_binary(), "-c", str(config)], port) as server:
        yield server


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[Environment]:
    """Run the proxy's execution environment. A call of it sets variables and starts a fresh one."""
    variables = VARIABLES | {"TABLE_NAME": TABLE, "BUCKET_NAME": BUCKET, "BUS_NAME": BUS}
    with mocked_aws():
        running = Environment(monkeypatch.setenv, variables | {"POWERTOOLS_SERVICE_NAME": "proxy"})
        yield running
        running.close()


@pytest.fixture
def cloud(environment: Environment) -> Cloud:
    make_stack()
    return Cloud(environment)


@pytest.fixture
def reported(environment: Environment) -> list[dict[str, Any]]:
    """Return the events sent to the bus."""
    return environment.reported


@pytest.fixture
def make_entry() -> MakeEntry:
    return entry_of


@pytest.fixture
def node(cloud: Cloud, redis_server: RedisServer, environment: Environment) -> Iterator[Node]:
    clients().secrets.put_parameter(Name="/redis", Value="redis password", Type="SecureString")
    environment(REDIS_PASSWORD_PARAMETER="/redis", REDIS_NODES=f"node-1=i-1@127.0.0.1:{redis_server.port}")
    cloud.node(phase="running", generation=7)
    with redis_py.Redis(port=redis_server.port, password="redis password") as client:
        yield Node(redis_server, client)


@pytest.fixture
def relay(cloud: Cloud, nats_server: ServerProcess, environment: Environment) -> Iterator[Relay]:
    """The relay; called with a key and an answer (None: silence), makes a process hold that key."""
    clients().secrets.put_parameter(Name="/relay/proxy", Value=PASSWORDS["proxy"], Type="SecureString")
    url = f"nats://127.0.0.1:{nats_server.port}"
    environment(RELAY_URL=url, RELAY_USER="proxy", RELAY_PASSWORD_PARAMETER="/relay/proxy")
    holders: list[Holder] = []

    def hold(key: str, answer: bytes | Entry | None) -> Holder:
        data = encode(answer) if isinstance(answer, Entry) else answer
        holders.append(Holder(nats_server.port, key, data))
        return holders[-1]

    yield hold
    for holder in holders:
        holder.close()
