"""Extensions API of a Lambda environment on loopback, which tells a test what an extension reports."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

_IDENTIFIER = "7455c8fe-aee7-4784-96dc-69a2d4f0be83"


@dataclass
class ExtensionsApi:
    """The API.

    Attributes:
        address: Host and port, as the environment's variable has them.
        registered: Name and events of the extension.
        error: What the extension has reported instead of its initialisation.
        is_initialised: Set by the extension's first wait for an event.
        ends: Set by the test, to end the environment.
    """

    address: str = ""
    registered: tuple[str, list[str]] | None = None
    error: dict[str, Any] | None = None
    is_initialised: threading.Event = field(default_factory=threading.Event)
    ends: threading.Event = field(default_factory=threading.Event)


class _Handler(BaseHTTPRequestHandler):
    api: ExtensionsApi

    def log_message(self, *_: object) -> None:
        """Log nothing."""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if self.path == "/2020-01-01/extension/register":
            self.api.registered = (self.headers["lambda-extension-name"], body["events"])
            self._send(200, {"functionName": "function"})
        elif self.path == "/2020-01-01/extension/init/error" and self._is_known():
            self.api.error = {"type": self.headers["lambda-extension-function-error-type"], **body}
            self._send(202, {"status": "OK"})
        else:
            self._send(403, {"errorType": "Extension.UnknownExtensionIdentifier"})

    def do_GET(self) -> None:
        if self.path != "/2020-01-01/extension/event/next" or not self._is_known():
            self._send(403, {"errorType": "Extension.UnknownExtensionIdentifier"})
            return
        self.api.is_initialised.set()
        self.api.ends.wait()
        self._send(200, {"eventType": "SHUTDOWN", "shutdownReason": "spindown", "deadlineMs": 0})

    def _is_known(self) -> bool:
        return self.headers["lambda-extension-identifier"] == _IDENTIFIER

    def _send(self, status: int, answer: dict[str, Any]) -> None:
        body = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Lambda-Extension-Identifier", _IDENTIFIER)
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def extensions_api() -> Iterator[ExtensionsApi]:
    """Run the API in threads of this process."""
    api = ExtensionsApi()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"api": api}))
    server.daemon_threads = True
    api.address = f"127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield api
    finally:
        api.ends.set()
        server.shutdown()
        server.server_close()
        thread.join()
