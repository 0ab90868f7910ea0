"""A local HTTP server of the thumbnails, by functions-framework: `python server.py PORT`.

Load shedding keeps latency low under overload: some requests run, some wait, and the others get a 503 at once. On
Lambda the function's reserved concurrency does this.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import uvicorn
from functions_framework.aio import create_asgi_app
from starlette.types import ASGIApp, Receive, Scope, Send

SOURCE = Path(__file__).parent / "src" / "served.py"
RUNNING = os.cpu_count() or 1
WAITING = 16


class Admission:
    """Admission control: runs some requests, queues a few more, and answers the others 503."""

    def __init__(self, app: ASGIApp, *, running: int, waiting: int) -> None:
        self._app = app
        self._running = asyncio.Semaphore(running)
        self._places = running + waiting

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not self._places:
            headers = [(b"retry-after", b"1"), (b"content-length", b"0")]
            await send({"type": "http.response.start", "status": 503, "headers": headers})
            await send({"type": "http.response.body"})
            return
        self._places -= 1
        try:
            async with self._running:
                await self._app(scope, receive, send)
        finally:
            self._places += 1


def main() -> None:
    """Serve until a signal arrives."""
    function: ASGIApp = create_asgi_app("served", str(SOURCE))  # type: ignore[no-untyped-call]
    app = Admission(function, running=RUNNING, waiting=WAITING)
    uvicorn.run(app, port=int(sys.argv[1]), http="httptools", lifespan="off", log_level="error", access_log=False)


if __name__ == "__main__":
    main()
