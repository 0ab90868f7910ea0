"""The page's server: it answers this machine alone, and has no way to change a stack."""

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
from burstcache_dashboard.parts import said
from burstcache_dashboard.receipt import rivals_of
from burstcache_dashboard.source import Source
from burstcache_dashboard.threads import in_thread
from burstcache_dashboard.watching import Watching
from burstcache_dashboard.waterfall import is_traced

_PAGE = Path(__file__).parent / "page"
_HOSTS = ["127.0.0.1", "localhost"]  # a name of somebody else's that leads here is refused (DNS rebinding)
_OTHER_SITES = ("same-site", "cross-site")  # the former is what runs at another port of this machine
_HEADERS = (
    (b"content-security-policy", b"default-src 'self'; img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
)


_Endpoint = Callable[[Request], Awaitable[Response]]


class Server(uvicorn.Server):
    """Serves the page of a stack."""

    def __init__(self, source: Source, benchmarks: Benchmarks | None = None) -> None:
        """Serve a stack's page, which offers benchmarks if there are any to offer."""
        self.watching, self._benchmarks = Watching(source), benchmarks
        self._answering = _Answering()
        app = make_app(self.watching, benchmarks, self._answering)
        super().__init__(uvicorn.Config(app, log_level="warning", access_log=False))

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End a benchmark, the pages' streams, which would never end by themselves, long answers, then everything."""
        if self._benchmarks:
            await asyncio.to_thread(self._benchmarks.close)
        self.watching.end()
        self._answering.end()
        await super().shutdown(sockets)


class _Answering:
    """The requests whose answers take time: they end with the server, which does not wait for what they wait for."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()
        self._is_over = False

    def end(self) -> None:
        """Answer all of them now, and those that come later."""
        self._is_over = True
        for task in self._tasks:
            task.cancel()

    def or_why_not(self, endpoint: _Endpoint) -> _Endpoint:
        """Have an endpoint answer with what went wrong, whatever a service said, for the page to say."""

        @wraps(endpoint)
        async def answering(request: Request) -> Response:
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
                return PlainTextResponse(said(error), 503)
            finally:
                self._tasks.discard(task)

        return answering


def _ended() -> Response:
    return PlainTextResponse("the dashboard's server has ended", 503)


def make_app(watching: Watching, benchmarks: Benchmarks | None, answering: _Answering) -> Starlette:
    """Return the application that shows a stack."""

    async def page(request: Request) -> Response:
        return FileResponse(_PAGE / "index.html", headers={"cache-control": "no-cache"})

    @answering.or_why_not
    async def about(request: Request) -> Response:
        token = benchmarks.token if benchmarks else None
        return JSONResponse(await in_thread(_about, watching.source) | {"benchmarkToken": token})

    async def events(request: Request) -> Response:
        return StreamingResponse(
            watching.events(), media_type="text/event-stream", headers={"cache-control": "no-store"}
        )

    @answering.or_why_not
    async def key(request: Request) -> Response:
        rows = await watching.look()
        found = await in_thread(key_page, watching.source, rows, request.query_params.get("key", ""))
        return JSONResponse(found)

    @answering.or_why_not
    async def trace(request: Request) -> Response:
        rows = await watching.look()
        found = await in_thread(trace_fields, watching.source, rows, request.query_params.get("key", ""))
        return JSONResponse(found)

    @answering.or_why_not
    async def rivals(request: Request) -> Response:
        rows = await watching.look()
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
            Middleware(_OfItsOwnPage),
        ],
    )


def _benchmark_routes(benchmarks: Benchmarks) -> list[Route]:
    """Return what the page starts, follows and cancels benchmarks by: the only requests that are not GETs."""

    async def offered(request: Request) -> Response:
        return JSONResponse(benchmarks.fields(), headers={"cache-control": "no-store"})

    async def picture(request: Request) -> Response:
        path = benchmarks.picture(request.path_params["name"])
        return FileResponse(path, headers={"cache-control": "no-store"}) if path else PlainTextResponse("", 404)

    async def start(request: Request) -> Response:
        if not _is_of_the_page(request, benchmarks.token):
            return PlainTextResponse("only the page of this server may ask for that", 403)
        try:
            await asyncio.to_thread(benchmarks.start, request.path_params["name"])
        except LookupError:
            return PlainTextResponse("there is no such benchmark", 404)
        except BenchmarkRunningError as error:
            return PlainTextResponse(str(error), 409)
        return JSONResponse(benchmarks.fields(), 202)

    async def cancel(request: Request) -> Response:
        if not _is_of_the_page(request, benchmarks.token):
            return PlainTextResponse("only the page of this server may ask for that", 403)
        await asyncio.to_thread(benchmarks.cancel)
        return JSONResponse(benchmarks.fields())

    return [
        Route("/benchmarks", offered, methods=["GET"]),
        Route("/benchmarks/{name}", start, methods=["POST"]),
        Route("/benchmarks/{name}", cancel, methods=["DELETE"]),
        Route("/benchmarks/{name}/picture", picture, methods=["GET"]),
    ]


def _is_of_the_page(request: Request, token: str) -> bool:
    """Whether a request is one of this server's page: of its origin, with the token that no other site can read."""
    is_own_origin = request.headers.get("origin") == f"http://{request.headers['host']}"
    return is_own_origin and secrets.compare_digest(
        request.headers.get("x-burstcache-token", "").encode(), token.encode()
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


@dataclasses.dataclass
class _OfItsOwnPage:
    """Refuses what another site's page asks for, by what browsers say of it: answers cost work, and in AWS money.

    A link of another site may lead to the page itself.
    """

    app: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_of_another = scope["type"] == "http" and Headers(scope=scope).get("sec-fetch-site") in _OTHER_SITES
        refused = PlainTextResponse("only the page of this server may ask for that", 403)
        await (refused if is_of_another and scope["path"] != "/" else self.app)(scope, receive, send)


def _about(source: Source) -> dict[str, Any]:
    parameters = source.parameters
    return {
        "stack": source.stack.name,
        "region": source.region,
        "isLocal": source.log_dir is not None,
        "policy": parameters.get("Policy", ""),
        "isTraced": is_traced(source),
        "prices": source.prices.name,
    }
