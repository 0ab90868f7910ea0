"""The async client, for asyncio. It serves memory hits in the caller's task, and all other reads in threads.

boto3 needs a thread anyway, and a hit in Redis or a cache function is no slower in a thread (`docs/use/client.md`).
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterable
from datetime import datetime
from functools import partial
from types import TracebackType
from typing import Literal, Self, Unpack, overload

from burstcache.adapters.object_store import Written
from burstcache.client.bounds import BoundArguments
from burstcache.client.client import Answer, Argument, Arguments, Client, check_arguments, distinct, outcomes
from burstcache.client.objects import Object, object_in
from burstcache.client.streams import ObjectFile
from burstcache.core.errors import BurstcacheError
from burstcache.serve.read_stats import ReadStats
from burstcache.web.request import Request
from burstcache.web.response import Response


class AsyncObjectFile:
    """An `ObjectFile` with awaitable reads, returned by `AsyncClient.open`. Reads must not overlap.

    A cancelled read leaves the file position unchanged.
    """

    def __init__(self, client: Client, file: ObjectFile) -> None:
        self._client = client
        self._file = file

    @property
    def head(self) -> Object:
        """The object without its body."""
        return self._file.head

    @property
    def tier(self) -> str:
        """The slowest tier that the bytes read so far needed."""
        return self._file.tier

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Change the file position, and return it."""
        return self._file.seek(offset, whence)

    async def read(self, size: int = -1) -> bytes:
        """Read like `ObjectFile.read`."""
        return await self._in_thread(self._file.read, size)

    async def parts(self) -> AsyncIterator[memoryview]:
        """Yield the remaining bytes like `ObjectFile.parts`."""
        parts = self._file.parts()
        while part := await self._in_thread(partial(next, parts), None):
            yield part

    def close(self) -> None:
        """Stop prefetching, and close the file."""
        self._file.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    async def _in_thread(self, call: Callable[[Argument], Answer], argument: Argument) -> Answer:
        file, position = self._file, self._file.tell()
        try:
            return await asyncio.wrap_future(self._client.submit(call, argument))
        except asyncio.CancelledError:  # the thread may go on for a while, as the old file's only user
            self._file = file.again()
            self._file.seek(position)
            file.close()
            raise


class AsyncClient:
    """A `Client` for asyncio: it reads and writes the objects of one bucket."""

    def __init__(self, **arguments: Unpack[Arguments]) -> None:
        """Create a client. See `Client` for arguments and errors."""
        check_arguments("AsyncClient()", arguments)
        self._client = Client(**arguments)

    @classmethod
    def local(cls, folder: str | os.PathLike[str] = ".burstcache", **bounds: Unpack[BoundArguments]) -> Self:
        """Return a client for the local run that `burstcache local up` started in this directory."""
        client = cls.__new__(cls)
        client._client = Client.local(folder, **bounds)
        return client

    async def get(
        self,
        key: str,
        *,
        range: str | None = None,
        if_match: str | None = None,
        if_none_match: str | None = None,
        if_modified_since: datetime | None = None,
        if_unmodified_since: datetime | None = None,
        max_age_s: int | None = None,
    ) -> Object:
        """Return an object, or the requested range of it. See `Client.get` for arguments and errors."""
        request = self._client.requests.make(
            "GET",
            key,
            range=range,
            if_match=if_match,
            if_none_match=if_none_match,
            if_modified_since=if_modified_since,
            if_unmodified_since=if_unmodified_since,
            max_age_s=max_age_s,
        )
        return object_in(key, await self._read(request))

    async def open(self, key: str, *, range: str | None = None, if_match: str | None = None) -> AsyncObjectFile:
        """Open an object, or a range of it, as a file. See `Client.open` for arguments and errors."""
        open_ = partial(self._client.open, range=range, if_match=if_match)
        return AsyncObjectFile(self._client, await asyncio.wrap_future(self._client.submit(open_, key)))

    async def head(
        self,
        key: str,
        *,
        if_match: str | None = None,
        if_none_match: str | None = None,
        if_modified_since: datetime | None = None,
        if_unmodified_since: datetime | None = None,
        max_age_s: int | None = None,
    ) -> Object:
        """Return an object without its body. See `Client.get` for arguments and errors."""
        request = self._client.requests.make(
            "HEAD",
            key,
            if_match=if_match,
            if_none_match=if_none_match,
            if_modified_since=if_modified_since,
            if_unmodified_since=if_unmodified_since,
            max_age_s=max_age_s,
        )
        return object_in(key, await self._read(request))

    @overload
    async def get_many(self, keys: Iterable[str], *, return_errors: Literal[False] = False) -> dict[str, Object]: ...

    @overload
    async def get_many(self, keys: Iterable[str], *, return_errors: bool) -> dict[str, Object | BurstcacheError]: ...

    async def get_many(
        self, keys: Iterable[str], *, return_errors: bool = False
    ) -> dict[str, Object] | dict[str, Object | BurstcacheError]:
        """Read objects in parallel, and return them by key. See `Client.get_many` for arguments and errors."""

        async def outcome(key: str) -> Object | BurstcacheError:
            try:
                return await self.get(key)
            except BurstcacheError as error:
                return error

        unique = distinct(keys)
        results = await asyncio.gather(*map(outcome, unique))
        return outcomes(dict(zip(unique, results, strict=True)), return_errors=return_errors)

    async def put(
        self,
        key: str,
        data: bytes | bytearray | memoryview,
        *,
        content_type: str | None = None,
        if_match: str | None = None,
        if_none_match: str | None = None,
    ) -> Written:
        """Write an object. See `Client.put` for arguments, guarantee and errors."""
        put = partial(
            self._client.put, data=data, content_type=content_type, if_match=if_match, if_none_match=if_none_match
        )
        return await asyncio.wrap_future(self._client.submit(put, key))

    async def delete(self, key: str, *, if_match: str | None = None) -> Written:
        """Delete an object. See `Client.put` for the argument, guarantee and errors."""
        return await asyncio.wrap_future(self._client.submit(partial(self._client.delete, if_match=if_match), key))

    async def purge(self, key: str) -> None:
        """Invalidate every copy of an object. See `Client.purge` for errors."""
        await asyncio.wrap_future(self._client.submit(self._client.purge, key))

    def stats(self) -> ReadStats:
        """Return where this client's reads were served, and what was not cached, and why."""
        return self._client.stats()

    async def close(self) -> None:
        """Send pending reports, and close all connections. A later read opens new ones."""
        await asyncio.to_thread(self._client.close)

    async def _read(self, request: Request) -> Response:
        large, response = self._client.large, self._client.reader.recall(request)
        if response is not None and not large.is_left(request, response):
            large.count(request, response)
            return response
        return await self._client.read_in_thread(request)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()
