"""Where requests go: to a front door by HTTP, or through `burstcache.client`. Each returns a status, never an error."""

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

Judge = Callable[[str, bytes], str]  # a key and a body to what is wrong with it; empty: nothing


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
    """Yield what sends a GET for the key of a number.

    Args:
        url: What a key is appended to.
        keys: The key of each request.
        headers: Sent with each.
        timeout_s: How long an answer may take, its body included [s].
        signer: Signs each; None: nothing is signed.
        judge: Says what is wrong with the body of a 200, as the answer's error.
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
            if status in _REDIRECTS:  # a large object: S3 has it, and wants none of these headers
                async with session.get(address.join(URL(response.headers["Location"], encoded=True))) as response:
                    body, status = await response.read(), response.status
            return Answer(status, tier, len(body), judge(keys[number], body) if status == 200 else "")
        except TimeoutError:
            return Answer(0, error=f"no answer within {timeout_s:g} s")
        except Exception as error:  # whatever it is, the replay goes on
            return Answer(0, error=type(error).__name__)

    async with session:
        yield send


def _address(url: str, key: str) -> str:
    """Return where the front door has a key: in the path, or in the query if it cannot be a path."""
    if "?" in key or {".", ".."}.intersection(key.split("/")):
        return f"{url}?key={quote(key, safe='')}"
    return f"{url}/{quote(key)}"


@asynccontextmanager
async def library(client: Client, keys: Sequence[str], threads: int, judge: Judge = _accept) -> AsyncIterator[Send]:
    """Yield what reads the key of a number through a client, in threads; it is closed at the end.

    A read that waits for a thread has not been sent yet. `judge` says what is wrong with a body, as the answer's error.
    """
    loop = asyncio.get_running_loop()

    def read(key: str, asked_s: float) -> Answer:
        waited_s = time.monotonic() - asked_s
        try:
            found = client.get(key)
            return Answer(200, found.tier, len(found.body), judge(key, found.body), waited_s)
        except ObjectNotFoundError:
            return Answer(404, waited_s=waited_s)
        except Exception as error:  # whatever it is, the replay goes on
            return Answer(0, error=type(error).__name__, waited_s=waited_s)

    with client, ThreadPoolExecutor(threads) as pool:

        async def send(number: int) -> Answer:
            return await loop.run_in_executor(pool, read, keys[number], time.monotonic())

        yield send


class Signer:
    """Signs GETs for an HTTP API with IAM authorization (SigV4)."""

    def __init__(self, session: Any) -> None:
        found: Credentials | None = session.get_credentials()
        if found is None or not session.region_name:
            raise InvalidSettingError("--sign: neither environment nor profile has AWS's credentials and a region")
        self._credentials = found
        self._region = session.region_name

    def headers(self, url: str) -> dict[str, str]:
        """Return the headers that sign a GET of this URL now."""
        from botocore.auth import SigV4Auth
        from botocore.awsrequest import AWSRequest

        request = AWSRequest("GET", url)
        SigV4Auth(self._credentials.get_frozen_credentials(), "execute-api", self._region).add_auth(request)
        return dict(request.headers.items())


def client_of(stack_name: str, session: Any, state_dir: Path | os.PathLike[str]) -> Client:
    """Return a client of a deployed stack, or without a name of the local run."""
    return Client(stack_name=stack_name, session=session) if stack_name else Client.local(state_dir)
