"""Targets of requests: a front door over HTTP, or `burstcache.client`. A target returns a status and never raises."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from burstcache.client import Client
from burstcache.core.errors import InvalidSettingError, ObjectNotFoundError
from burstcache_replay.schedule import Answer, Send

if TYPE_CHECKING:
    from botocore.credentials import Credentials

_TIER = "X-Cache-Tier"
_KEPT_ALIVE_S = 30.0
_REDIRECTS = (301, 302, 303, 307, 308)

Judge = Callable[[str, bytes], str]  # (key, body) → the problem with the body, empty if none


def _accept(key: str, body: bytes) -> str:
    return ""


@asynccontextmanager
async def front_door(
    url: str,
    keys: Sequence[str],
    headers: Mapping[str, str],
    timeout_s: float,
    signer: Signer | None = None,
    judge: Judge = _accept,
) -> AsyncIterator[Send]:
    """Yield a function that sends the GET with a given request index over HTTP.

    Args:
        url: The base URL, to which keys are appended.
        keys: The key of each request.
        headers: Headers for every request.
        timeout_s: Timeout of a response including its body [s].
        signer: Signs each request, or None to leave requests unsigned.
        judge: Validates the body of a 200. Its result becomes the response's error.
    """
    import aiohttp
    from yarl import URL

    urls = {key: URL(_address(url.rstrip("/"), key), encoded=True) for key in dict.fromkeys(keys)}
    connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=_KEPT_ALIVE_S)
    timeout = aiohttp.ClientTimeout(total=timeout_s)
    session = aiohttp.ClientSession(connector=connector, timeout=timeout, auto_decompress=False)

    async def send(number: int) -> Answer:
        address = urls[keys[number]]
        try:
            own = {**headers, **signer.headers(str(address))} if signer else headers
            async with session.get(address, headers=own, allow_redirects=False) as response:
                body = await response.read()
            tier, status = response.headers.get(_TIER, ""), response.status
            if status in _REDIRECTS:  # a large object, fetched from S3 by presigned URL without these headers
                async with session.get(address.join(URL(response.headers["Location"], encoded=True))) as response:
                    body, status = await response.read(), response.status
            return Answer(status, tier, len(body), judge(keys[number], body) if status == 200 else "")
        except TimeoutError:
            return Answer(0, error=f"no answer within {timeout_s:g} s")
        except Exception as error:  # an error must not end the replay
            return Answer(0, error=type(error).__name__)

    async with session:
        yield send


def _address(url: str, key: str) -> str:
    """Return the front door's URL for a key. The key is in the path, or in the query if it is not a valid path."""
    if "?" in key or {".", ".."}.intersection(key.split("/")):
        return f"{url}?key={quote(key, safe='')}"
    return f"{url}/{quote(key)}"


@asynccontextmanager
async def library(client: Client, keys: Sequence[str], threads: int, judge: Judge = _accept) -> AsyncIterator[Send]:
    """Yield a function that sends the read with a given request index through a client, in threads.

    A read that waits for a thread does not count as sent. `judge` validates the body, and its result becomes the
    response's error. The client is closed at the end.
    """
    loop = asyncio.get_running_loop()

    def read(key: str, queued_s: float) -> Answer:
        waited_s = time.monotonic() - queued_s
        try:
            item = client.get(key)
            return Answer(200, item.tier, len(item.body), judge(key, item.body), waited_s)
        except ObjectNotFoundError:
            return Answer(404, waited_s=waited_s)
        except Exception as error:  # an error must not end the replay
            return Answer(0, error=type(error).__name__, waited_s=waited_s)

    with client, ThreadPoolExecutor(threads) as pool:

        async def send(number: int) -> Answer:
            return await loop.run_in_executor(pool, read, keys[number], time.monotonic())

        yield send


class Signer:
    """A signer of GETs for an HTTP API with IAM authorization (SigV4)."""

    def __init__(self, session: Any) -> None:
        credentials: Credentials | None = session.get_credentials()
        if credentials is None or not session.region_name:
            raise InvalidSettingError("--sign: found no AWS credentials and region in the environment or profile")
        self._credentials = credentials
        self._region = session.region_name

    def headers(self, url: str) -> dict[str, str]:
        """Return SigV4 headers for a GET of this URL, signed now."""
        from botocore.auth import SigV4Auth
        from botocore.awsrequest import AWSRequest

        request = AWSRequest("GET", url)
        SigV4Auth(self._credentials.get_frozen_credentials(), "execute-api", self._region).add_auth(request)
        return dict(request.headers.items())


def client_of(stack_name: str, session: Any, state_dir: Path | os.PathLike[str]) -> Client:
    """Return a client for a deployed stack, or for the local run if the name is empty."""
    return Client(stack_name=stack_name, session=session) if stack_name else Client.local(state_dir)
