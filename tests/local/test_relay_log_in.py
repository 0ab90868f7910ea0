"""Logging in to the relay, a real NATS server: a password that it refuses is named, and read anew."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from burstcache.access import RelayAccess
from burstcache.adapters import relay_listener
from burstcache.adapters.clock import SystemClock
from burstcache.adapters.relay_listener import RelayListener
from burstcache.adapters.relay_requests import RelayRequests
from burstcache.core.errors import RelayDownError
from support.servers import serve
from support.waiting import LIMIT_S, free_port, until

# Which of refusal and end is noticed first is chance.
_REFUSED = (
    "it (refuses the password of user cache|hangs up while user cache logs in, as it does after a wrong password): "
)


class Passwords:
    """Parameters as functions read them: a password is kept until it is forgotten."""

    def __init__(self) -> None:
        self.parameter = "right"
        self.kept = ""

    def read(self, name: str) -> str:
        self.kept = self.kept or self.parameter
        return self.kept

    def forget(self) -> None:
        self.kept = ""


class Server:
    """A NATS server that knows one user."""

    def __init__(self, folder: Path) -> None:
        self.port, self._config = free_port(), folder / "nats.conf"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, password: str) -> None:
        """Start, or start anew with another password."""
        self.stop()
        users = {"users": [{"user": "cache", "password": password}]}
        self._config.write_text(json.dumps({"listen": f"127.0.0.1:{self.port}", "authorization": users}))
        self._process = serve([str(Path(sys.executable).parent / "nats-server"), "-c", str(self._config)], self.port)

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    server = Server(tmp_path)
    server.start("right")
    yield server
    server.stop()


@pytest.fixture
def passwords() -> Passwords:
    return Passwords()


@pytest.fixture
def access(server: Server) -> RelayAccess:
    return RelayAccess(f"nats://127.0.0.1:{server.port}", "cache", "/password")


def test_a_password_that_is_refused_is_named_and_read_anew(access: RelayAccess, passwords: Passwords) -> None:
    passwords.parameter = "old"
    requests = RelayRequests(access, passwords, SystemClock(), connect_timeout_s=LIMIT_S)  # type: ignore[arg-type]

    with pytest.raises(RelayDownError, match=_REFUSED):
        requests.send_request("get.nobody", b"", timeout_s=LIMIT_S)
    passwords.parameter = "right"

    assert requests.send_request("get.nobody", b"", timeout_s=LIMIT_S) is None
    requests.close()


def test_a_listener_that_is_refused_reads_its_password_anew(
    access: RelayAccess, passwords: Passwords, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relay_listener, "_CONNECT_TIMEOUT_S", 2.0)  # it tries for as long as this
    passwords.parameter = "old"

    async def work() -> None:
        listener = RelayListener(access, passwords)  # type: ignore[arg-type]
        with pytest.raises(RelayDownError, match=_REFUSED):
            await listener.open()
        passwords.parameter = "right"
        monkeypatch.setattr(relay_listener, "_CONNECT_TIMEOUT_S", LIMIT_S)
        await listener.open()
        await listener.close()

    asyncio.run(work())


def test_a_listener_whose_relay_comes_back_with_another_password_reads_it_anew(
    access: RelayAccess, passwords: Passwords, server: Server
) -> None:
    async def work() -> None:
        listener = RelayListener(access, passwords)  # type: ignore[arg-type]
        await listener.open()
        passwords.parameter = "new"
        await asyncio.to_thread(server.start, "new")
        await asyncio.to_thread(until, lambda: not passwords.kept)  # its connection has tried the former one
        await listener.open()
        await listener.close()

    asyncio.run(work())
