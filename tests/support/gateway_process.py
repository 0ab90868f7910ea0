"""A gateway's process in front of an S3, and requests signed for it, as bytes."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import urlsplit

from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from support.project import PYTHONPATH
from support.waiting import LIMIT_S

REGION = "us-east-1"
KEYS = ("gateway-user", "secret-of-gateway-user")


@contextmanager
def gateway(
    origin_url: str, bucket: str, keys: Mapping[str, str], own: tuple[str, str], arguments: Sequence[str] = ()
) -> Iterator[str]:
    """Run a gateway for the duration of a `with`, and yield its URL.

    Args:
        origin_url: The S3 behind it.
        bucket: The bucket that it caches.
        keys: Secrets of the clients' access keys. Empty: none is told.
        own: Access key and secret that the gateway signs with.
        arguments: Further arguments of the command.
    """
    with TemporaryDirectory() as folder:
        file = Path(folder) / "keys"
        file.touch(mode=0o600)
        file.write_text("".join(f"{key} {secret}\n" for key, secret in keys.items()))
        command = [sys.executable, "-m", "burstcache.gateway", "--port", "0", "--bucket", bucket]
        command += ["--origin-endpoint", origin_url, "--region", REGION, *arguments]
        if keys:
            command += ["--keys-file", str(file)]
        variables = {"AWS_ACCESS_KEY_ID": own[0], "AWS_SECRET_ACCESS_KEY": own[1], "PYTHONPATH": PYTHONPATH}
        with subprocess.Popen(command, env=os.environ | variables, stdout=subprocess.PIPE, text=True) as process:
            try:
                assert process.stdout is not None
                line = process.stdout.readline()
                assert line.startswith("http://"), f"the gateway has ended with {process.wait(LIMIT_S)}"
                yield line.split()[0]
                assert process.poll() is None, f"the gateway has ended with {process.returncode}"
            finally:
                process.terminate()


@dataclass(frozen=True)
class Signer:
    """Signer of requests for a gateway.

    Attributes:
        url: The gateway's URL.
        keys: Access key and secret.
    """

    url: str
    keys: tuple[str, str] = KEYS

    def headers(
        self, method: str, target: str, body: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> dict[str, str]:
        """Return the headers of a signed request, those of the signature included."""
        request = AWSRequest(method=method, url=self.url + target, data=body, headers=dict(headers or {}))
        S3SigV4Auth(Credentials(*self.keys), "s3", REGION).add_auth(request)
        return {"Host": urlsplit(self.url).netloc, **dict(request.headers.items())}

    def request(
        self,
        method: str,
        target: str,
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
        unsigned: Sequence[str] = (),
    ) -> bytes:
        """Return a whole request as bytes, with further header lines that are not signed."""
        lines = [f"{name}: {value}" for name, value in self.headers(method, target, body, headers).items()]
        if body or method == "PUT":
            lines.append(f"Content-Length: {len(body)}")
        head = "\r\n".join([f"{method} {target} HTTP/1.1", *lines, *unsigned, "", ""])
        return head.encode("latin-1") + body


def exchange(url: str, sent: bytes, *, ends: bool = False) -> bytes:
    """Send bytes on a new connection and return everything that comes until it is closed.

    Args:
        url: The server's URL.
        sent: What to send: its last request has to close the connection.
        ends: Whether to end this side of the connection after it.
    """
    address = urlsplit(url)
    assert address.hostname
    with socket.create_connection((address.hostname, address.port or 80), LIMIT_S) as connection:
        received = bytearray()
        try:
            connection.sendall(sent)
            if ends:
                connection.shutdown(socket.SHUT_WR)
            while chunk := connection.recv(1 << 16):
                received += chunk
        except ConnectionError:  # the server has refused the rest
            pass
        return bytes(received)


def statuses(received: bytes) -> list[int]:
    """Return the statuses of all responses in what came, in order. Bodies must not look like a response."""
    return [int(part[:3]) for part in received.split(b"HTTP/1.1 ")[1:]]
