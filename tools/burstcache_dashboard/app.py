"""The page's server: it answers GETs of this machine, and has no way to change anything."""

from __future__ import annotations

import asyncio
import dataclasses
import socket
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from burstcache_dashboard.key_page import key_page
from burstcache_dashboard.receipt import rivals_of
from burstcache_dashboard.source import Source
from burstcache_dashboard.watching import Watching

_PAGE = Path(__file__).parent / "page"
_HOSTS = ["127.0.0.1", "localhost"]  # a name of somebody else's that leads here is refused (DNS rebinding)
_HEADERS = (
    (b"content-security-policy", b"default-src 'self'; img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
)


class Server(uvicorn.Server):
    """Serves the page of a stack."""

    def __init__(self, source: Source) -> None:
        self._watching = Watching(source)
        app = make_app(source, self._watching)
        super().__init__(uvicorn.Config(app, log_level="warning", access_log=False))

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End the pages' streams, which would never end by themselves, and then everything."""
        self._watching.end()
        await super().shutdown(sockets)


def make_app(source: Source, watching: Watching) -> Starlette:
    """Return the application that shows a stack."""

    async def page(request: Request) -> Response:
        return FileResponse(_PAGE / "index.html", headers={"cache-control": "no-cache"})

    async def about(request: Request) -> Response:
        return JSONResponse(await asyncio.to_thread(_about, source))

    async def events(request: Request) -> Response:
        return StreamingResponse(
            watching.events(), media_type="text/event-stream", headers={"cache-control": "no-store"}
        )

    async def key(request: Request) -> Response:
        rows, _ = await watching.look()
        found = await asyncio.to_thread(key_page, source, rows, request.query_params.get("key", ""))
        return JSONResponse(found)

    async def rivals(request: Request) -> Response:
        rows, measured = await watching.look()
        return JSONResponse(await asyncio.to_thread(rivals_of, source, rows, measured))

    return Starlette(
        routes=[
            Route("/", page, methods=["GET"]),
            Route("/about", about, methods=["GET"]),
            Route("/events", events, methods=["GET"]),
            Route("/key", key, methods=["GET"]),
            Route("/rivals", rivals, methods=["GET"]),
            Mount("/page", StaticFiles(directory=_PAGE)),
        ],
        middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=_HOSTS), Middleware(_WithHeaders)],
    )


@dataclasses.dataclass
class _WithHeaders:
    """Adds what keeps other sites out to every answer."""

    app: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *_HEADERS]
            await send(message)

        await self.app(scope, receive, sending)


def _about(source: Source) -> dict[str, Any]:
    parameters = source.parameters
    return {
        "stack": source.stack.name,
        "region": source.region,
        "isLocal": source.log_dir is not None,
        "policy": parameters.get("Policy", ""),
        "prices": source.prices.name,
    }
