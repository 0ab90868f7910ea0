"""Which AWS calls a local run's functions make, as IAM names them: each function signs with a key of its own name."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from urllib.parse import parse_qs
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

import pytest

from burstcache_local.moto import server

_SIGNED = re.compile(r"Credential=([^/]+)/\d+/[^/]+/([^/]+)/")
_REST = (
    ("lambda", "POST", r"/2015-03-31/functions/[^/]+/invocations", "InvokeFunction"),
    ("lambda", "GET", r"/2016-08-19/account-settings/?", "GetAccountSettings"),
    ("s3", "GET|HEAD", r"/[^/]+/.+", "GetObject"),
    ("s3", "GET|HEAD", r"/[^/]+/?", "ListBucket"),
)

Calls = set[tuple[str, str]]  # who signed, IAM action


@contextmanager
def recorded_calls() -> Iterator[Calls]:
    """Yield the calls that local runs get which start within the `with`."""
    calls: Calls = set()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(server, "_with_raw_paths", _recording(server._with_raw_paths, calls))
        yield calls


def _recording(
    wrap: Callable[[WSGIApplication], WSGIApplication], calls: Calls
) -> Callable[[WSGIApplication], WSGIApplication]:
    def recording(application: WSGIApplication) -> WSGIApplication:
        inner = wrap(application)

        def serve(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
            if signed := _SIGNED.search(environ.get("HTTP_AUTHORIZATION", "")):
                who, service = signed.groups()
                calls.add((who, f"{service}:{_operation(service, environ)}"))
            return inner(environ, start_response)

        return serve

    return recording


def _operation(service: str, environ: WSGIEnvironment) -> str:
    if target := environ.get("HTTP_X_AMZ_TARGET", ""):
        return str(target.rpartition(".")[2])
    if environ.get("CONTENT_TYPE", "").startswith("application/x-www-form-urlencoded"):
        body = environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"]))
        environ["wsgi.input"] = io.BytesIO(body)
        return str(parse_qs(body.decode())["Action"][0])
    path, method = str(environ["REQUEST_URI"]).partition("?")[0], str(environ["REQUEST_METHOD"])
    for of, methods, pattern, operation in _REST:
        if of == service and re.fullmatch(methods, method) and re.fullmatch(pattern, path):
            return operation
    return f"{method} {path}"
