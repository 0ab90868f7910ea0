"""The server of the Lambda runtime API."""

from __future__ import annotations

import asyncio

import pytest

from burstcache_local.lambdas.wire import Request, Response, Service
from support.waiting import LIMIT_S


@pytest.mark.parametrize("is_too_late", [False, True])
def test_a_connection_that_is_made_while_the_service_closes_is_closed(is_too_late: bool) -> None:
    async def answer(request: Request) -> Response:
        return Response(200)

    async def scenario() -> None:
        service = Service(answer)
        accept = service._accept

        def accept_and_close(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            if is_too_late:
                service.close()
                accept(reader, writer)
            else:
                accept(reader, writer)
                service.close()

        service._accept = accept_and_close  # type: ignore[method-assign]
        reader, writer = await asyncio.open_connection("127.0.0.1", await service.start())
        async with asyncio.timeout(LIMIT_S):
            assert await reader.read() == b""
        writer.close()

    asyncio.run(scenario())
