"""The detour of invocations from the AWS endpoint to the Lambda API."""

from __future__ import annotations

import io
import threading
from collections.abc import Iterator
from contextlib import nullcontext
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from burstcache_local.lambdas.lambda_api import before


class LambdaApi(HTTPServer):
    """A server that records the headers of invocations."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.headers: list[dict[str, str]] = []


class _Handler(BaseHTTPRequestHandler):
    server: LambdaApi

    def do_POST(self) -> None:
        self.server.headers.append({name.title(): value for name, value in self.headers.items()})
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_: Any) -> None:
        """Log nothing."""


@pytest.fixture
def api() -> Iterator[LambdaApi]:
    server = LambdaApi()
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def test_an_invocation_is_forwarded_with_its_trace_and_its_kind(api: LambdaApi) -> None:
    application = before(lambda *_: [b"moto"], lambda: f"http://127.0.0.1:{api.server_port}", nullcontext)
    sent = {"X-Amz-Invocation-Type": "Event", "X-Amzn-Trace-Id": "Root=1-5759e988-bd862e3fe1be46a994272793"}

    body = application(
        {
            "REQUEST_URI": "/2015-03-31/functions/app/invocations",
            "CONTENT_LENGTH": "2",
            "wsgi.input": io.BytesIO(b"{}"),
            "HTTP_CONNECTION": "close",
            **{f"HTTP_{name.upper().replace('-', '_')}": value for name, value in sent.items()},
        },
        lambda *_: lambda _: None,
    )

    assert list(body) == [b"{}"]
    assert sent.items() <= api.headers[0].items()
    assert "Connection" not in api.headers[0]
