"""The Lambda Invoke API for state machines and functions, and the ResponseURL endpoint for custom resources."""

from __future__ import annotations

import base64
import contextlib
import json
import uuid
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from http.client import HTTPConnection
from urllib.parse import urlsplit
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from aiohttp import web

from burstcache_local.errors import FunctionNotFoundError, TenantError, ThrottledError
from burstcache_local.lambdas.service import Lambdas
from burstcache_local.moto.answers import Answers
from burstcache_local.signed_requests import signer_of
from burstcache_local.traces import HEADER

_MAX_SYNC_BYTES = 6 * 1024 * 1024
_MAX_ASYNC_BYTES = 1024 * 1024
_FORWARDED = ("HTTP_X_AMZ_", "HTTP_X_AMZN_")  # with the trace header


def runner(lambdas: Lambdas, answers: Answers, problem: Callable[[str, str], str]) -> web.AppRunner:
    """Return a runner for the API's web application.

    Args:
        lambdas: The functions.
        answers: Receives the responses of custom resource functions.
        problem: Maps an access key and a function to the reason for denying the invocation, or to an empty string.
    """

    async def invoke(request: web.Request) -> web.Response:
        request_id = str(uuid.uuid4())
        payload = await request.read() or b"{}"
        signer, _ = signer_of(request.headers.get("Authorization", ""))
        if reason := problem(signer, request.match_info["name"]):
            return _error(403, "AccessDeniedException", reason, request_id)
        kind = request.headers.get("X-Amz-Invocation-Type", "RequestResponse")
        limit_bytes = _MAX_ASYNC_BYTES if kind == "Event" else _MAX_SYNC_BYTES
        if len(payload) > limit_bytes:
            message = (
                f"{len(payload)} byte payload is too large for the {kind} invocation type (limit {limit_bytes} bytes)"
            )
            return _error(413, "RequestTooLargeException", message, request_id)
        try:
            return await _invoke(lambdas, request, kind, payload, request_id)
        except FunctionNotFoundError as error:
            return _error(404, "ResourceNotFoundException", str(error), request_id)
        except TenantError as error:
            return _error(400, "InvalidParameterValueException", str(error), request_id)
        except ThrottledError as error:
            return _error(429, "TooManyRequestsException", str(error), request_id)

    async def answer(request: web.Request) -> web.Response:
        answers.put(request.match_info["id"], json.loads(await request.read()))
        return web.Response()

    app = web.Application(client_max_size=8 * 1024 * 1024)
    app.router.add_post("/2015-03-31/functions/{name}/invocations", invoke)
    app.router.add_put("/custom-resources/{id}", answer)
    return web.AppRunner(app, access_log=None, keepalive_timeout=3600, shutdown_timeout=0.5)


def before(
    application: WSGIApplication, url: Callable[[], str], waiting: Callable[[], AbstractContextManager[None]]
) -> WSGIApplication:
    """Return a WSGI application that forwards invocations to `url` and everything else to `application`.

    Forwarding runs inside the context manager `waiting`, because the function may call the same server.
    """

    def forward(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        path = environ["REQUEST_URI"].partition("?")[0]
        if not (path.startswith("/2015-03-31/functions/") and path.endswith("/invocations")):
            return application(environ, start_response)
        request_headers = {
            name[5:].replace("_", "-"): value for name, value in environ.items() if name.startswith(_FORWARDED)
        }
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        with waiting(), contextlib.closing(HTTPConnection(urlsplit(url()).netloc)) as connection:
            connection.request("POST", path, body, request_headers)
            answer = connection.getresponse()
            content = answer.read()
        headers = [
            (name, value) for name, value in answer.getheaders() if name.lower().startswith(("content-", "x-amz"))
        ]
        start_response(f"{answer.status} {answer.reason}", headers)
        return [content]

    return forward


async def _invoke(lambdas: Lambdas, request: web.Request, kind: str, payload: bytes, request_id: str) -> web.Response:
    name, tenant_id = request.match_info["name"], request.headers.get("X-Amz-Tenant-Id", "")
    headers, trace = {"x-amzn-RequestId": request_id}, request.headers.get(HEADER, "")
    if kind == "DryRun":
        await lambdas.function_for(name, tenant_id)
        return web.Response(status=204, headers=headers)
    if kind == "Event":
        await lambdas.invoke_event(name, payload, request_id=request_id, tenant_id=tenant_id, trace=trace)
        return web.Response(status=202, headers=headers)
    context = request.headers.get("X-Amz-Client-Context", "")
    outcome = await lambdas.invoke(
        name,
        payload,
        request_id=request_id,
        tenant_id=tenant_id,
        client_context=base64.b64decode(context).decode() if context else "",
        trace=trace,
    )
    headers |= {"X-Amz-Executed-Version": "$LATEST"} | (
        {"X-Amz-Function-Error": outcome.error} if outcome.error else {}
    )
    return web.Response(body=outcome.body, headers=headers, content_type="application/json")


def _error(status: int, kind: str, message: str, request_id: str) -> web.Response:
    headers = {"x-amzn-RequestId": request_id, "x-amzn-ErrorType": kind}
    return web.json_response({"Type": "User", "message": message}, status=status, headers=headers)
