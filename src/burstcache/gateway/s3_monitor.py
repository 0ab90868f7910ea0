"""Monitor of a gateway's requests to S3: counts them and times them, on both ways that lead there.

The cache reads by boto3, and everything that passes goes by aiohttp.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import aiohttp

from burstcache.forks import Lock
from burstcache.gateway.prometheus import FAMILIES, OPERATIONS, S3_OUTCOMES, Values, observe

_OK, _CLIENT_ERROR, _SERVER_ERROR, _UNREACHABLE = range(len(S3_OUTCOMES))
_OPERATIONS = {"GET": 0, "HEAD": 1, "PUT": 2, "POST": 2, "DELETE": 2}
_OTHER = len(OPERATIONS) - 1
_REQUESTS, _BYTES = FAMILIES["s3_requests_total"].first, FAMILIES["s3_received_bytes_total"].first
_SECONDS, _SECONDS_WIDTH = FAMILIES["s3_request_seconds"].first, FAMILIES["s3_request_seconds"].width


class S3Monitor:
    """Counts one process's requests to S3. Thread-safe."""

    def __init__(self, values: Values) -> None:
        """Count in the metrics of this process."""
        self._values = values
        self._lock = Lock()
        self._sent = threading.local()  # the request that boto3 sends in this thread

    def count(self, method: str, status: int, elapsed_ns: int) -> None:
        """Count a request. Status 0: S3 did not respond."""
        operation = _OPERATIONS.get(method, _OTHER)
        if not status:
            outcome = _UNREACHABLE
        elif status < 400:
            outcome = _OK
        else:
            outcome = _CLIENT_ERROR if status < 500 else _SERVER_ERROR
        with self._lock:
            self._values[_REQUESTS + operation * len(S3_OUTCOMES) + outcome] += 1
            if status:
                observe(self._values, _SECONDS + operation * _SECONDS_WIDTH, elapsed_ns)

    def count_received(self, size_bytes: int) -> None:
        """Count bytes of a response's body."""
        with self._lock:
            self._values[_BYTES] += size_bytes

    # boto3.

    def watch(self, client: Any) -> None:
        """Count the requests of a boto3 client."""
        client.meta.events.register_first("before-send.s3", self._note_sent)
        client.meta.events.register("response-received.s3", self._note_received)

    def _note_sent(self, request: Any, **_: object) -> None:
        self._sent.method, self._sent.at_ns = request.method, time.monotonic_ns()

    def _note_received(self, response_dict: Mapping[str, Any] | None, **_: object) -> None:
        method, at_ns = self._sent.method, self._sent.at_ns
        self.count(method, 0 if response_dict is None else response_dict["status_code"], time.monotonic_ns() - at_ns)
        if response_dict is not None and method != "HEAD":  # the cache reads what it asks for
            length = response_dict["headers"].get("content-length", "")
            self.count_received(int(length) if length.isdecimal() else 0)

    # aiohttp.

    def session_arguments(self, *others: aiohttp.TraceConfig) -> dict[str, Any]:
        """Return the arguments of an aiohttp session whose requests are counted, and watched by others."""
        trace = aiohttp.TraceConfig()
        trace.on_request_start.append(_note_start)
        trace.on_request_end.append(self._note_end)
        trace.on_request_exception.append(self._note_exception)
        count_received = self.count_received

        class CountedResponse(aiohttp.ClientResponse):
            """A response whose bytes are counted when it is released."""

            _counted_bytes = 0

            def _count(self) -> None:
                if self.content is not None:
                    received_bytes = self.content.total_bytes
                    count_received(received_bytes - self._counted_bytes)
                    self._counted_bytes = received_bytes

            def release(self) -> Any:
                """Count the bytes, and return the connection to the pool."""
                self._count()
                return super().release()

            def close(self) -> None:
                """Count the bytes, and close the connection."""
                self._count()
                super().close()

        return {"trace_configs": [trace, *others], "response_class": CountedResponse}

    async def _note_end(
        self, _: aiohttp.ClientSession, context: SimpleNamespace, end: aiohttp.TraceRequestEndParams
    ) -> None:
        self.count(end.method, end.response.status, time.monotonic_ns() - context.started_ns)

    async def _note_exception(
        self, _: aiohttp.ClientSession, context: SimpleNamespace, end: aiohttp.TraceRequestExceptionParams
    ) -> None:
        self.count(end.method, 0, time.monotonic_ns() - context.started_ns)


async def _note_start(_: aiohttp.ClientSession, context: SimpleNamespace, __: aiohttp.TraceRequestStartParams) -> None:
    context.started_ns = time.monotonic_ns()
