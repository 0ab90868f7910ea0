"""Targets of a replay against a real server: requests in transit, and the recorded parts of answers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import boto3
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from burstcache.core.errors import InvalidSettingError
from burstcache_replay.schedule import Answer, Outcome, replay
from burstcache_replay.targets import Signer, front_door, library
from support.servers import Silence

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def answers(handler: Handler, keys: list[str], headers: dict[str, str] | None = None) -> list[Answer]:
    """Return the answers to a GET of each key."""

    async def main() -> list[Answer]:
        app = web.Application()
        app.router.add_get("/{path:.*}", handler)
        async with TestServer(app) as server:
            url = str(server.make_url("/objects"))
            async with front_door(url, keys, headers or {}, 5.0) as send:
                return [await send(number) for number in range(len(keys))]

    return asyncio.run(main())


def test_keys_reach_the_server_as_they_are() -> None:
    asked: list[str] = []

    async def handler(request: web.Request) -> web.Response:
        asked.append(request.query.get("key") or request.path)
        return web.Response(body=b"12345", headers={"X-Cache-Tier": "redis"})

    keys = ["plain", "a folder/ä#c%20d", "a+b&c", "what?", "up/../down"]

    assert answers(handler, keys) == [Answer(200, "redis", 5)] * 5
    assert asked == [*(f"/objects/{key}" for key in keys[:3]), *keys[3:]]


def test_a_redirect_is_followed_without_the_headers_of_the_front_door() -> None:
    seen: list[str | None] = []

    async def handler(request: web.Request) -> web.Response:
        seen.append(request.headers.get("Authorization"))
        if request.path.startswith("/objects"):
            there = {"Location": "/bucket/large?sig=a%2Fb", "X-Cache-Tier": "s3"}
            return web.Response(status=307, headers=there)
        return web.Response(body=request.rel_url.raw_query_string.encode())

    found = answers(handler, ["large"], {"Authorization": "Bearer token"})

    assert found == [Answer(200, "s3", len("sig=a%2Fb"))]
    assert seen == ["Bearer token", None]


def test_a_status_is_an_answer() -> None:
    async def handler(request: web.Request) -> web.Response:
        return web.Response(status=503)

    assert answers(handler, ["key"]) == [Answer(503)]


def test_no_connection_and_no_answer_in_time_are_named() -> None:
    async def main() -> list[Answer]:
        found = []
        with Silence() as silence:
            address = silence.address
            async with front_door(f"http://{address}", ["key"], {}, 0.01) as send:
                found.append(await send(0))
        async with front_door(f"http://{address}", ["key"], {}, 5.0) as send:
            found.append(await send(0))
        return found

    silent, gone = asyncio.run(main())

    assert silent == Answer(0, error="no answer within 0.01 s")
    assert (gone.status, gone.error) == (0, "ClientConnectorError")


@pytest.mark.parametrize(("headers", "error"), [({}, "KeyError"), ({"Location": "http://[::1"}, "ValueError")])
def test_a_redirect_to_nowhere_is_named(headers: dict[str, str], error: str) -> None:
    async def handler(request: web.Request) -> web.Response:
        return web.Response(status=307, headers=headers)

    assert answers(handler, ["key"]) == [Answer(0, error=error)]


class Slow:
    """A client whose reads take a tenth of a second."""

    def __enter__(self) -> None: ...

    def __exit__(self, *error: object) -> None: ...

    def get(self, key: str) -> Any:
        time.sleep(0.1)
        return SimpleNamespace(tier="redis", body=b"12345")


def test_a_read_is_late_for_as_long_as_it_waits_for_a_thread() -> None:
    async def main() -> list[Outcome]:
        outcomes: list[Outcome] = []
        client: Any = Slow()
        async with library(client, ["first", "second"], threads=1) as send:
            await replay([0.0, 0.0], send, outcomes.append)
        return outcomes

    first, second = asyncio.run(main())

    assert first.answer == second.answer == Answer(200, "redis", 5)
    assert second.late_s > 0.05  # without it, a thousandth
    assert second.late_s + second.service_s == pytest.approx(second.latency_s)


class Failing(Slow):
    """A client that fails as none should."""

    def get(self, key: str) -> Any:
        raise RuntimeError("can't start new thread")


def test_a_read_that_fails_in_any_way_is_named() -> None:
    async def main() -> Answer:
        client: Any = Failing()
        async with library(client, ["key"], threads=1) as send:
            return await send(0)

    assert asyncio.run(main()) == Answer(0, error="RuntimeError")


def test_a_signature_names_the_region_the_service_and_the_token() -> None:
    session = boto3.Session("id", "secret", "token", region_name="eu-central-1")

    headers = Signer(session).headers("https://api.example/objects/key")

    assert "/eu-central-1/execute-api/aws4_request" in headers["Authorization"]
    assert headers["X-Amz-Security-Token"] == "token"


def test_a_signature_wants_a_region(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_DEFAULT_REGION", raising=False)  # of the machine, or of a test before
    monkeypatch.setenv("AWS_CONFIG_FILE", "/dev/null")
    session = boto3.Session("id", "secret")

    with pytest.raises(InvalidSettingError, match="--sign"):
        Signer(session)
