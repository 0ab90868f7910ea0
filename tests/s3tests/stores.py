"""Stores that speak S3's protocol, for the suite to run against: moto, and Versity's S3 gateway on a folder."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from burstcache_local.moto.server import moto_server
from s3tests.suite import USERS
from support.servers import ServerProcess
from support.waiting import free_port

VERSITYGW = "github.com/versity/versitygw/cmd/versitygw"
VERSITYGW_VERSION = "v1.8.0"


@dataclass(frozen=True)
class Store:
    """A running store.

    Attributes:
        endpoint_url: Its base URL.
        owner: Canonical id of the main user.
    """

    endpoint_url: str
    owner: str


@contextmanager
def moto(folder: Path) -> Iterator[Store]:
    """Run moto's S3 in threads of this process. It takes any key and knows one user."""
    with moto_server() as services:
        yield Store(services.cloud_url, owner="75aa57f09aa0c8caeab4f8c24e99d10f8e7faeebf76c078efc7c6caea54ba06a")


@contextmanager
def versitygw(folder: Path) -> Iterator[Store]:
    """Run Versity's S3 gateway on temporary folders, with the suite's users. Builds it if it is not in `folder`."""
    program = folder / "versitygw"
    if not program.exists():
        variables = {"GOBIN": str(folder.resolve())}
        _run("env", *(f"{name}={value}" for name, value in variables.items()), "go", "install", _package())
    main, *others = USERS
    keys = ("--access", main.access_key, "--secret", main.secret_key)
    port = free_port()
    with TemporaryDirectory() as data:
        places = {name: Path(data) / name for name in ("objects", "versions", "users")}
        for place in places.values():
            place.mkdir()
        command = [str(program), "--port", f"127.0.0.1:{port}", "--quiet", "--iam-dir", str(places["users"]), *keys]
        command += ["posix", "--versioning-dir", str(places["versions"]), str(places["objects"])]
        with ServerProcess(command, port):
            url = f"http://127.0.0.1:{port}"
            for user in others:
                admin = [str(program), "admin", *keys, "--region", "us-east-1", "--endpoint-url", url, "create-user"]
                _run(*admin, "--access", user.access_key, "--secret", user.secret_key, "--role", "userplus")
            yield Store(url, owner=main.access_key)


STORES: dict[str, Callable[[Path], AbstractContextManager[Store]]] = {"moto": moto, "versitygw": versitygw}


def _package() -> str:
    return f"{VERSITYGW}@{VERSITYGW_VERSION}"


def _run(*command: str) -> None:
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
