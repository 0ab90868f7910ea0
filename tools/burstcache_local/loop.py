"""An event loop in its own thread."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import uvloop
from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from burstcache_local import ports

T = TypeVar("T")
_logger = logging.getLogger("aiohttp.server")


def _is_our_mistake(record: logging.LogRecord) -> bool:
    """Return whether a logged error is a bug of ours, unlike a malformed request, which aiohttp answers with 400."""
    return not (record.exc_info and isinstance(record.exc_info[1], HttpProcessingError))


class LoopThread:
    """An event loop in its own thread, which runs coroutines for other threads and serves web applications."""

    def __init__(self) -> None:
        self.loop = uvloop.new_event_loop()
        self._runners: list[web.BaseRunner] = []
        self._thread = threading.Thread(target=self.loop.run_forever, name="loop", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T], timeout_s: float | None = None) -> T:
        """Run a coroutine in the event loop, and return its result. The calling thread blocks."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(timeout_s)

    def serve(self, make_runner: Callable[[], web.BaseRunner], port: int = 0) -> str:
        """Serve on 127.0.0.1 and return the URL.

        Args:
            make_runner: Returns the runner of a web server or application. Called in the event loop.
            port: Port to listen on, or 0 for any free port.

        Raises:
            PortTakenError: The port is in use.
        """
        return self.run(self._serve(make_runner, port))

    def stop(self) -> None:
        """Close the servers and stop the loop."""
        self.run(self._close())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()

    async def _serve(self, make_runner: Callable[[], web.BaseRunner], port: int) -> str:
        _logger.addFilter(_is_our_mistake)
        listener = ports.listen(port)
        runner = make_runner()
        await runner.setup()
        await web.SockSite(runner, listener).start()
        self._runners.append(runner)
        return f"http://127.0.0.1:{listener.getsockname()[1]}"

    async def _close(self) -> None:
        for runner in self._runners:
            await runner.cleanup()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await self.loop.shutdown_default_executor()
