"""The Lambda extension of a gateway: starts it before a function's first invocation, and ends it with the environment.

A function whose AWS_ENDPOINT_URL_S3 names a gateway that does not run could read nothing. So an extension whose gateway
does not start reports an error: Lambda logs it, fails the initialisation, and tries a new environment.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import sys
import threading
from collections.abc import Mapping
from http.client import HTTPConnection, HTTPException
from pathlib import Path

from burstcache import adapters
from burstcache.core.errors import in_one_line
from burstcache.gateway.entry import parse_arguments

OPTIONS_VARIABLE = "BURSTCACHE_GATEWAY_OPTIONS"
NAME = "burstcache-gateway"  # that of the file in /opt/extensions
_PATH = "/2020-01-01/extension"
_DRAIN_S = 1  # Lambda ends the environment two seconds after it announces that


class ExtensionsApi:
    """The API of an environment for its extensions."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._identity: dict[str, str] = {}

    def register(self) -> None:
        """Register for the event at the environment's end alone. Invocations do not wait for the extension then."""
        headers = {"Lambda-Extension-Name": NAME, "Content-Type": "application/json"}
        answered, _ = self._call("POST", "/register", json.dumps({"events": ["SHUTDOWN"]}), headers)
        self._identity = {"Lambda-Extension-Identifier": answered["lambda-extension-identifier"]}

    def wait_for_end(self) -> None:
        """Wait until the environment ends. The first call tells Lambda that the extension is initialised."""
        while self._call("GET", "/event/next")[1].get("eventType") != "SHUTDOWN":
            pass

    def fail(self, error: Exception) -> None:
        """Report that the extension cannot be initialised."""
        kind = f"Extension.{type(error).__name__}"
        body = json.dumps({"errorMessage": in_one_line(error), "errorType": kind, "stackTrace": []})
        self._call("POST", "/init/error", body, {"Lambda-Extension-Function-Error-Type": kind})

    def _call(
        self, method: str, path: str, body: str | None = None, headers: Mapping[str, str] | None = None
    ) -> tuple[dict[str, str], dict[str, object]]:
        """Return the headers, with names in lower case, and the body of the response."""
        connection = HTTPConnection(self._address)
        try:
            connection.request(method, _PATH + path, body, {**self._identity, **(headers or {})})
            response = connection.getresponse()
            content = response.read()
            if response.status >= 300:
                raise HTTPException(f"the Extensions API answers {response.status}: {content[:200]!r}")
            return {name.lower(): value for name, value in response.getheaders()}, json.loads(content or b"{}")
        finally:
            connection.close()


def main() -> int:
    """Run the gateway until the environment ends, and return the exit code."""
    api = ExtensionsApi(os.environ["AWS_LAMBDA_RUNTIME_API"])
    api.register()

    def end_with_the_environment() -> None:
        try:
            api.wait_for_end()
        except (OSError, HTTPException, ValueError) as error:
            print(f"burstcache: {in_one_line(error)}", file=sys.stderr, flush=True)
        os.kill(os.getpid(), signal.SIGTERM)

    try:
        arguments = parse_arguments(["--drain-s", str(_DRAIN_S), *shlex.split(os.environ.get(OPTIONS_VARIABLE, ""))])
        # aiohttp loads a bundle of all authorities at its import, for contexts that nothing here uses: 80 ms of CPU.
        os.environ.setdefault("SSL_CERT_FILE", str(Path(adapters.__path__[0]) / "amazon_roots.pem"))
        from burstcache.gateway.command import work

        return work(arguments, threading.Thread(target=end_with_the_environment, daemon=True).start)
    except Exception as error:
        print(f"burstcache: the gateway does not start: {in_one_line(error)}", file=sys.stderr, flush=True)
        api.fail(error)
        return 1


if __name__ == "__main__":
    sys.exit(main())
