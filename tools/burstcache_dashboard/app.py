"""The dashboard's web app and server. The server listens only on loopback, and cannot change a stack."""

from __future__ import annotations

import asyncio
import dataclasses
import secrets
import socket
from collections.abc import Awaitable, Callable
from functools import wraps
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from burstcache_dashboard.benchmarks import BenchmarkRunningError, Benchmarks
from burstcache_dashboard.key_page import key_page, trace_fields
from burstcache_dashboard.parts import error_text
from burstcache_dashboard.receipt import rivals_of
from burstcache_dashboard.shown import possible_states
from burstcache_dashboard.source import Source
from burstcache_dashboard.threads import in_thread
from burstcache_dashboard.watching import Watching
from burstcache_dashboard.waterfall import is_traced

_PAGE = Path(__file__).parent / "page"
_HOSTS = ["127.0.0.1", "localhost"]  # other host names are rejected, to prevent DNS rebinding
_OTHER_SITES = ("same-site", "cross-site")  # same-site includes servers on other ports of this machine
_HEADERS = (
    (b"content-security-policy", b"default-src 'self'; img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
)


_Endpoint = Callable[[Request], Awaitable[Response]]


class Server(uvicorn.Server):
    """The HTTP server for a stack's dashboard."""

    def __init__(self, source: Source, benchmarks: Benchmarks | None = None) -> None:
        """Configure the server. `benchmarks` adds routes for benchmarks."""
        self.watching, self._benchmarks = Watching(source), benchmarks
        self._pending = _PendingRequests()
        app = make_app(self.watching, benchmarks, self._pending)
        super().__init__(uvicorn.Config(app, log_level="warning", access_log=False))

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop the running benchmark, all event streams and all pending requests, and shut down the server."""
        if self._benchmarks:
            await asyncio.to_thread(self._benchmarks.close)
        self.watching.end()
        self._pending.end()
        await super().shutdown(sockets)


class _PendingRequests:
    """Slow requests in progress, which are cancelled on shutdown so that shutdown does not wait for AWS."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()
        self._is_over = False

    def end(self) -> None:
        """Cancel all pending requests, and reject later requests."""
        self._is_over = True
        for task in self._tasks:
            task.cancel()

    def guarded(self, endpoint: _Endpoint) -> _Endpoint:
        """Wrap an endpoint so that its requests are tracked, and exceptions become a 503 with the error message."""

        @wraps(endpoint)
        async def handle(request: Request) -> Response:
            task = asyncio.current_task()
            assert task is not None
            self._tasks.add(task)
            try:
                return _ended() if self._is_over else await endpoint(request)
            except asyncio.CancelledError:
                if not self._is_over:
                    raise
                return _ended()
            except Exception as error:
                return PlainTextResponse(error_text(error), 503)
            finally:
                self._tasks.discard(task)

        return handle


def _ended() -> Response:
    return PlainTextResponse("the dashboard's server has ended", 503)


def make_app(watching: Watching, benchmarks: Benchmarks | None, pending: _PendingRequests) -> Starlette:
    """Return the dashboard's web application."""

    async def page(request: Request) -> Response:
        return FileResponse(_PAGE / "index.html", headers={"cache-control": "no-cache"})

    @pending.guarded
    async def about(request: Request) -> Response:
        token = benchmarks.token if benchmarks else None
        return JSONResponse(await in_thread(_about, watching.source) | {"benchmarkToken": token})

    async def events(request: Request) -> Response:
        return StreamingResponse(
            watching.events(), media_type="text/event-stream", headers={"cache-control": "no-store"}
        )

    @pending.guarded
    async def key(request: Request) -> Response:
        rows = await watching.current_rows()
        fields = await in_thread(key_page, watching.source, rows, request.query_params.get("key", ""))
        return JSONResponse(fields)

    @pending.guarded
    async def trace(request: Request) -> Response:
        rows = await watching.current_rows()
        fields = await in_thread(trace_fields, watching.source, rows, request.query_params.get("key", ""))
        return JSONResponse(fields)

    @pending.guarded
    async def rivals(request: Request) -> Response:
        rows = await watching.current_rows()
        return JSONResponse(await in_thread(rivals_of, watching.source, rows))

    return Starlette(
        routes=[
            Route("/", page, methods=["GET"]),
            Route("/about", about, methods=["GET"]),
            Route("/events", events, methods=["GET"]),
            Route("/key", key, methods=["GET"]),
            Route("/trace", trace, methods=["GET"]),
            Route("/rivals", rivals, methods=["GET"]),
            *(_benchmark_routes(benchmarks) if benchmarks else ()),
            Mount("/page", StaticFiles(directory=_PAGE)),
        ],
        middleware=[
            Middleware(TrustedHostMiddleware, allowed_hosts=_HOSTS),
            Middleware(_WithHeaders),
            Middleware(_SameOriginOnly),
        ],
    )


def _benchmark_routes(benchmarks: Benchmarks) -> list[Route]:
    """Return the routes that start, show and cancel benchmarks. Only these routes accept methods other than GET."""

    async def page(request: Request) -> Response:
        return FileResponse(_PAGE / "benchmarks.html", headers={"cache-control": "no-cache"})

    async def offered(request: Request) -> Response:
        return JSONResponse(benchmarks.fields(), headers={"cache-control": "no-store"})

    async def picture(request: Request) -> Response:
        path = benchmarks.picture(request.path_params["name"])
        return FileResponse(path, headers={"cache-control": "no-store"}) if path else PlainTextResponse("", 404)

    async def start(request: Request) -> Response:
        if not _is_from_page(request, benchmarks.token):
            return PlainTextResponse("only this server's page may send this request", 403)
        try:
            await asyncio.to_thread(benchmarks.start, request.path_params["name"])
        except LookupError:
            return PlainTextResponse("there is no such benchmark", 404)
        except BenchmarkRunningError as error:
            return PlainTextResponse(str(error), 409)
        return JSONResponse(benchmarks.fields(), 202)

    async def cancel(request: Request) -> Response:
        if not _is_from_page(request, benchmarks.token):
            return PlainTextResponse("only this server's page may send this request", 403)
        await asyncio.to_thread(benchmarks.cancel)
        return JSONResponse(benchmarks.fields())

    return [
        Route("/benchmarks", page, methods=["GET"]),
        Route("/benchmarks/all", offered, methods=["GET"]),
        Route("/benchmarks/{name}", start, methods=["POST"]),
        Route("/benchmarks/{name}", cancel, methods=["DELETE"]),
        Route("/benchmarks/{name}/picture", picture, methods=["GET"]),
    ]


def _is_from_page(request: Request, token: str) -> bool:
    """Return whether a request comes from this server's page, by origin and by a token that other sites cannot read."""
    is_own_origin = request.headers.get("origin") == f"http://{request.headers['host']}"
    return is_own_origin and secrets.compare_digest(
        request.headers.get("x-burstcache-token", "").encode(), token.encode()
    )


@dataclasses.dataclass
class _WithHeaders:
    """Middleware that adds security headers to every response."""

    app: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *_HEADERS]
            await send(message)

        await self.app(scope, receive, sending)


@dataclasses.dataclass
class _SameOriginOnly:
    """Middleware that rejects requests from other sites by `Sec-Fetch-Site`, because responses cost CPU and AWS fees.

    Links from other sites to the page itself are allowed.
    """

    app: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_of_another = scope["type"] == "http" and Headers(scope=scope).get("sec-fetch-site") in _OTHER_SITES
        refused = PlainTextResponse("only this server's page may send this request", 403)
        await (refused if is_of_another and scope["path"] != "/" else self.app)(scope, receive, send)


def _about(source: Source) -> dict[str, Any]:
    parameters = source.parameters
    return {
        "stack": source.stack.name,
        "region": source.region,
        "isLocal": source.log_dir is not None,
        "policy": parameters.get("Policy", ""),
        "states": possible_states(parameters),
        "isTraced": is_traced(source),
        "prices": source.prices.name,
    }
