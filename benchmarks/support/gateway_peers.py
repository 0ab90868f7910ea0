"""Peers of the gateway: other servers of the same objects on loopback, each a process on one processor.

| Peer | Comes from |
|---|---|
| nginx, static files, one worker | Debian's `nginx-core` |
| rclone `serve s3`, VFS cache `full` | `go install github.com/rclone/rclone@v1.76.0`; Debian's 1.60 has no `serve s3` |
| moto's threaded server | the development environment |
| the generated S3 | this module, as a program |
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import boto3
from botocore.awsrequest import AWSResponse, HeadersDict
from botocore.config import Config

from benchmarks.read_path import free_port
from benchmarks.support.common import PROJECT
from benchmarks.support.delayed_s3 import serve
from benchmarks.support.generated_s3 import GeneratedObject, generated
from benchmarks.support.http_load import SERVER_CORE, Request, pinned

BUCKET, FOLDER = "bucket", "hot"
ACCESS_KEY, SECRET_KEY, REGION = "AKIDBENCHMARK", "secret-of-the-benchmark", "us-east-1"
RCLONE = "github.com/rclone/rclone@v1.76.0"
_START_LIMIT_S = 60.0
_NGINX = """
daemon off; worker_processes 1; pid {folder}/nginx.pid; error_log {folder}/error.log; {user}
events {{ worker_connections 4096; }}
http {{
  access_log off; sendfile on; tcp_nopush on; tcp_nodelay on; keepalive_requests 1000000000; keepalive_timeout 600s;
  open_file_cache max=100 inactive=600s; open_file_cache_valid 600s;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
  default_type binary/octet-stream;
  server {{ listen 127.0.0.1:{port}; root {folder}/root; }}
}}
"""


@dataclass(frozen=True, slots=True)
class Server:
    """A server of the objects.

    Attributes:
        prefix: The path before an object's key.
    """

    name: str
    url: str
    process_id: int
    prefix: str = f"/{BUCKET}"

    def requests(self, keys: Sequence[str], **parameters: str) -> list[Request]:
        """Return boto3's GETs of objects, each signed for this server."""
        places = [f"{self.prefix}/{key}".strip("/").partition("/") for key in keys]
        return signed_requests(self.url, places[0][0], [name for _, _, name in places], **parameters) if places else []


class PeerStartError(Exception):
    """A server did not start."""


def s3_client(url: str) -> Any:
    """Return boto3's client of a server, with the benchmark's keys."""
    return boto3.client(
        "s3",
        endpoint_url=url,
        region_name=REGION,
        aws_access_key_id=ACCESS_KEY,
        aws_secret_access_key=SECRET_KEY,
        config=Config(s3={"addressing_style": "path"}),
    )


def signed_requests(url: str, bucket: str, keys: Sequence[str], **parameters: str) -> list[Request]:
    """Return the GETs that boto3 would send, with all of its headers. A signature is valid for 15 minutes."""
    prepared: list[Request] = []
    client = s3_client(url)

    def catch(request: Any, **_: Any) -> AWSResponse:
        parts = urlsplit(request.url)
        headers = {name: _text(value) for name, value in request.headers.items()}
        path = f"{parts.path}?{parts.query}" if parts.query else parts.path
        prepared.append(Request(path, {"Host": parts.netloc, **headers}))
        raw: Any = io.BytesIO()
        none: Any = HeadersDict()
        return AWSResponse(request.url, 200, none, raw)

    client.meta.events.register("before-send.s3.GetObject", catch)
    for key in keys:
        client.get_object(Bucket=bucket, Key=key, **parameters)
    return prepared


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value


@contextlib.contextmanager
def running_server(
    command: Sequence[str], port: int, *, log: Path, core: int = SERVER_CORE, variables: Mapping[str, str] | None = None
) -> Iterator[int]:
    """Run a server on one processor for the duration of a `with`, and yield its process id once it listens.

    Raises:
        PeerStartError: It ended, or does not listen.
    """
    with log.open("wb") as output:
        process = subprocess.Popen(
            pinned(core, command),
            stdout=output,
            stderr=output,
            stdin=subprocess.DEVNULL,
            cwd=PROJECT,
            env={**os.environ, **(variables or {})},
        )
    try:
        _await_port(process, port, log)
        yield process.pid
    finally:
        process.terminate()
        try:
            process.wait(_START_LIMIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _await_port(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    end_s = time.monotonic() + _START_LIMIT_S
    while True:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        if process.poll() is not None or time.monotonic() > end_s:
            raise PeerStartError(f"{process.args!r}: {log.read_text(errors='replace')[-2000:]}")
        time.sleep(0.02)


@contextlib.contextmanager
def generated_server(
    folder: Path, sizes: Sequence[int], *, delay_ms: float = 0, mb_per_s: float = 0, core: int = SERVER_CORE
) -> Iterator[Server]:
    """Run the generated S3: an object under any key that ends with a slash and its size."""
    port = free_port()
    command = [sys.executable, "-m", "benchmarks.support.gateway_peers", str(port), *map(str, sizes)]
    command += ["--delay-ms", str(delay_ms), "--mb-per-s", str(mb_per_s)]
    with running_server(command, port, log=folder / f"s3-{port}.log", core=core) as process_id:
        yield Server("generated S3", f"http://127.0.0.1:{port}", process_id)


@contextlib.contextmanager
def moto_server(folder: Path, sizes: Sequence[int]) -> Iterator[Server]:
    """Run moto's threaded server with the objects in its memory."""
    port = free_port()
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with running_server(command, port, log=folder / "moto.log") as process_id:
        server = Server("moto", f"http://127.0.0.1:{port}", process_id)
        client = s3_client(server.url)
        client.create_bucket(Bucket=BUCKET)
        for size in sizes:
            client.put_object(Bucket=BUCKET, Key=f"{FOLDER}/{size}", Body=contents(size))
        yield server


@contextlib.contextmanager
def nginx_server(folder: Path, sizes: Sequence[int]) -> Iterator[Server]:
    """Run nginx with one worker over files."""
    port, root = free_port(), folder / "root" / BUCKET / FOLDER
    root.mkdir(parents=True)
    for size in sizes:
        (root / str(size)).write_bytes(contents(size))
    user = "user root;" if os.getuid() == 0 else ""
    configuration = folder / "nginx.conf"
    configuration.write_text(_NGINX.format(folder=folder, port=port, user=user))
    command = [nginx_binary() or "nginx", "-p", str(folder), "-c", str(configuration)]
    with running_server(command, port, log=folder / "nginx.log") as process_id:
        yield Server("nginx", f"http://127.0.0.1:{port}", process_id)


@contextlib.contextmanager
def rclone_server(folder: Path, binary: Path, origin: Server, *, has_keys: bool) -> Iterator[Server]:
    """Run rclone's S3 server over another S3, with its cache on disk."""
    port = free_port()
    name = "rclone, keys" if has_keys else "rclone"
    command = [str(binary), "serve", "s3", f"origin:{BUCKET}", "--addr", f"127.0.0.1:{port}", "--read-only"]
    command += ["--vfs-cache-mode", "full", "--cache-dir", str(folder / f"rclone-{has_keys}")]
    command += ["--dir-cache-time", "1h", "--use-server-modtime", "--config", os.devnull]
    command += ["--auth-key", f"{ACCESS_KEY},{SECRET_KEY}"] if has_keys else []
    variables = {
        "TYPE": "s3",
        "PROVIDER": "Other",
        "ENDPOINT": origin.url,
        "REGION": REGION,
        "ACCESS_KEY_ID": ACCESS_KEY,
        "SECRET_ACCESS_KEY": SECRET_KEY,
        "FORCE_PATH_STYLE": "true",
    }
    given = {f"RCLONE_CONFIG_ORIGIN_{name}": value for name, value in variables.items()}
    with running_server(command, port, log=folder / f"rclone-{has_keys}.log", variables=given) as process_id:
        yield Server(name, f"http://127.0.0.1:{port}", process_id, prefix="")  # a folder is a bucket there


def nginx_binary() -> str | None:
    """Return the path of nginx. None: it is not installed."""
    return shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")


def contents(size_bytes: int) -> bytes:
    """Return the bytes of an object."""
    return b"".join(generated(0, size_bytes))


@dataclass(frozen=True, slots=True)
class _ListedObjects:
    """Generated objects under all keys that end with a size. A listing has those of the sizes given."""

    sizes: Sequence[int]

    def find(self, key: str) -> GeneratedObject | None:
        """Return an object. None: the key has no size."""
        size = key.rpartition("/")[2]
        return GeneratedObject(int(size)) if size.isdigit() else None

    def keys(self) -> list[str]:
        """Return the keys in a listing."""
        return [f"{FOLDER}/{size}" for size in self.sizes]


def main() -> None:
    """Serve generated objects until the process ends."""
    parser = argparse.ArgumentParser("python -m benchmarks.support.gateway_peers")
    parser.add_argument("port", type=int)
    parser.add_argument("sizes", type=int, nargs="*", help="of the objects in a listing [bytes]")
    parser.add_argument("--delay-ms", type=float, default=0)
    parser.add_argument("--mb-per-s", type=float, default=0)
    arguments = parser.parse_args()
    objects = _ListedObjects(arguments.sizes)
    serve(objects, port=arguments.port, delay_ms=arguments.delay_ms, mb_per_s=arguments.mb_per_s)


if __name__ == "__main__":
    main()
