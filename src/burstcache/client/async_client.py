"""The client for asyncio: memory answers in the caller's task, everything else in threads.

S3's client needs a thread anyway, and a hit from Redis or the relay is no slower in one (`docs/use/client.md`).
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
from burstcache.client.client import Answer, Argument, Arguments, Client, check_arguments, distinct, outcomes
from burstcache.client.keeping import Keeping
from burstcache.client.objects import Object, object_in
from burstcache.client.streams import ObjectFile
from burstcache.core.errors import BurstcacheError
from burstcache.web.request import Request
from burstcache.web.response import Response


class AsyncObjectFile:
    """What `AsyncClient.open` returns: an `ObjectFile` whose reads are awaited, one at a time.

    After a read that is cancelled the file is where it was before.
    """

    def __init__(self, client: Client, file: ObjectFile) -> None:
        self._client = client
        self._file = file

    @property
    def head(self) -> Object:
        """The object without its body."""
        return self._file.head

    @property
    def is_pooled(self) -> bool:
        """Whether all that was read until now came from the pool."""
        return self._file.is_pooled

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Go to a byte, as files do, and return which."""
        return self._file.seek(offset, whence)

    async def read(self, size: int = -1) -> bytes:
        """Read as `ObjectFile.read` does."""
        return await self._in_thread(self._file.read, size)

    async def parts(self) -> AsyncIterator[memoryview]:
        """Yield as `ObjectFile.parts` does."""
        parts = self._file.parts()
        while part := await self._in_thread(partial(next, parts), None):
            yield part

    def close(self) -> None:
        """Read nothing more ahead."""
        self._file.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    async def _in_thread(self, call: Callable[[Argument], Answer], argument: Argument) -> Answer:
        file, position = self._file, self._file.tell()
        try:
            return await asyncio.wrap_future(self._client.submit(call, argument))
        except asyncio.CancelledError:  # the thread goes on for a while, with a file that nobody else uses
            self._file = file.again()
            self._file.seek(position)
            file.close()
            raise


class AsyncClient:
    """Reads and writes the objects of one bucket, as `Client` does, for tasks of an event loop."""

    def __init__(self, **arguments: Unpack[Arguments]) -> None:
        """Make a client; arguments and errors are those of `Client`."""
        check_arguments("AsyncClient()", arguments)
        self._client = Client(**arguments)

    @classmethod
    def local(cls, folder: str | os.PathLike[str] = ".burstcache", **keeping: Unpack[Keeping]) -> Self:
        """Return a client of the local run that `burstcache local up` started in this directory."""
        client = cls.__new__(cls)
        client._client = Client.local(folder, **keeping)
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
        """Return an object, or with a range a part of it; arguments and errors are those of `Client.get`."""
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
        """Return an object, or a part of it, as a file; arguments and errors are those of `Client.open`."""
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
        """Return an object without its body; arguments and errors are those of `Client.get`."""
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
        """Return objects by key, read at the same time; arguments and errors are those of `Client.get_many`."""

        async def outcome(key: str) -> Object | BurstcacheError:
            try:
                return await self.get(key)
            except BurstcacheError as error:
                return error

        wanted = distinct(keys)
        found = await asyncio.gather(*map(outcome, wanted))
        return outcomes(dict(zip(wanted, found, strict=True)), return_errors=return_errors)

    async def put(
        self,
        key: str,
        data: bytes | bytearray | memoryview,
        *,
        content_type: str | None = None,
        if_match: str | None = None,
        if_none_match: str | None = None,
    ) -> Written:
        """Write an object; arguments, promise and errors are those of `Client.put`."""
        put = partial(
            self._client.put, data=data, content_type=content_type, if_match=if_match, if_none_match=if_none_match
        )
        return await asyncio.wrap_future(self._client.submit(put, key))

    async def delete(self, key: str, *, if_match: str | None = None) -> Written:
        """Delete an object; argument, promise and errors are those of `Client.put`."""
        return await asyncio.wrap_future(self._client.submit(partial(self._client.delete, if_match=if_match), key))

    async def purge(self, key: str) -> None:
        """Let every copy of an object go; errors are those of `Client.purge`."""
        await asyncio.wrap_future(self._client.submit(self._client.purge, key))

    async def close(self) -> None:
        """Send what is waiting to be reported, and close the connections. A later read opens new ones."""
        await asyncio.to_thread(self._client.close)

    async def _read(self, request: Request) -> Response:
        reader = self._client.reader
        if (response := reader.own.recall(request)) is not None:
            return response
        return await self._client.read_in_thread(request)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()
