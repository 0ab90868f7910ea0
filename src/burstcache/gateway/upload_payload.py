"""Upload payload: a body that stops while S3 has sent something, since S3 may refuse an upload before its end.

S3 then closes the connection. A further write would fail, and the response that has arrived would be lost.
"""

from __future__ import annotations

import asyncio
import select
from collections.abc import AsyncIterator

from aiohttp.abc import AbstractStreamWriter
from aiohttp.payload import AsyncIterablePayload

_PAUSE_S = 0.01  # the event loop reads the response in the meantime, and ends the upload


class UploadPayload(AsyncIterablePayload):
    """A body of a request to S3.

    Args:
        body: Its pieces.
    """

    def __init__(self, body: AsyncIterator[bytes]) -> None:
        super().__init__(self._pieces(body))
        self._responses = select.poll() if hasattr(select, "poll") else None  # Windows has none

    async def write_with_length(self, writer: AbstractStreamWriter, content_length: int | None) -> None:
        """Write the body to a connection."""
        transport = getattr(writer, "transport", None)
        socket = None if transport is None else transport.get_extra_info("socket")
        if self._responses is not None and socket is not None:
            self._responses.register(socket.fileno(), select.POLLIN)
        await super().write_with_length(writer, content_length)

    async def _pieces(self, body: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        async for piece in body:
            if self._responses is not None and self._responses.poll(0):
                await asyncio.sleep(_PAUSE_S)
            yield piece
