"""The HTTP API for boto3, with one POST per call, the action in a header, and JSON in both directions."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from burstcache_local.stepfunctions.errors import ApiError
from burstcache_local.stepfunctions.service import StepFunctions

_TARGET = "AWSStepFunctions."


class HttpApi:
    """A thread-safe HTTP interface to Step Functions."""

    def __init__(self, states: StepFunctions, loop: asyncio.AbstractEventLoop) -> None:
        self._states, self._loop = states, loop

    def respond(self, target: str, body: bytes, trace: str = "") -> tuple[int, bytes]:
        """Perform one request, and return the response's status and body.

        Args:
            target: The header `X-Amz-Target`.
            body: The action's parameters as JSON.
            trace: The header `X-Amzn-Trace-Id`, which takes precedence over the parameter `traceHeader`.
        """
        parameters = json.loads(body or b"{}") | ({"traceHeader": trace} if trace else {})
        try:
            answer = asyncio.run_coroutine_threadsafe(
                self._answer(target.removeprefix(_TARGET), parameters), self._loop
            ).result()
        except ApiError as error:
            return 400, json.dumps({"__type": error.code, "message": str(error)}).encode()
        return 200, json.dumps(answer, default=_seconds).encode()

    async def _answer(self, action: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
        return self._states.answer(action, parameters)

    def before(self, application: WSGIApplication) -> WSGIApplication:
        """Return a WSGI application that serves Step Functions and forwards everything else to `application`."""

        def answer(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
            target = environ.get("HTTP_X_AMZ_TARGET", "")
            if not target.startswith(_TARGET):
                return application(environ, start_response)
            body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
            status, content = self.respond(target, body, environ.get("HTTP_X_AMZN_TRACE_ID", ""))
            headers = [("Content-Type", "application/x-amz-json-1.0"), ("Content-Length", str(len(content)))]
            start_response("200 OK" if status == 200 else "400 Bad Request", headers)
            return [content]

        return answer


def _seconds(value: Any) -> float:
    if isinstance(value, datetime):
        return value.timestamp()
    raise TypeError(f"{value!r} is not JSON")
