"""Stores that speak S3's protocol, for the suite to run against: moto, Versity's on a folder, and the gateway."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import AnyStr

from s3tests.suite import USERS
from support import gateway_process
from support.project import PYTHONPATH, ROOT
from support.waiting import free_port, wait_for_port

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
    """Run moto's S3, with its errors in `moto.log`. It takes any key and knows one user."""
    command = [sys.executable, "-m", "s3tests.moto_process"]
    variables = os.environ | {"PYTHONPATH": os.pathsep.join((PYTHONPATH, str(ROOT / "tests")))}
    with (
        (folder / "moto.log").open("a") as log,
        subprocess.Popen(command, env=variables, stdout=subprocess.PIPE, stderr=log, text=True) as process,
        _ending(process),
    ):
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        assert url, "moto has ended"
        yield Store(url, owner="75aa57f09aa0c8caeab4f8c24e99d10f8e7faeebf76c078efc7c6caea54ba06a")


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
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        with _ending(process):
            wait_for_port(port, process)
            url = f"http://127.0.0.1:{port}"
            for user in others:
                admin = [str(program), "admin", *keys, "--region", "us-east-1", "--endpoint-url", url, "create-user"]
                _run(*admin, "--access", user.access_key, "--secret", user.secret_key, "--role", "userplus")
            yield Store(url, owner=main.access_key)


@contextmanager
def gateway(store: Store, bucket: str) -> Iterator[Store]:
    """Run Burstcache's gateway in front of a store. It takes the keys of every user, and signs with the main user's.

    Args:
        store: The store.
        bucket: The bucket that the gateway caches. The gateway does not need it to exist.
    """
    keys = {user.access_key: user.secret_key for user in USERS}
    main = USERS[0]
    with gateway_process.gateway(store.endpoint_url, bucket, keys, (main.access_key, main.secret_key)) as url:
        yield Store(url, store.owner)


@contextmanager
def _ending(process: subprocess.Popen[AnyStr]) -> Iterator[None]:
    """Terminate a process at the end of a `with`, and wait for it."""
    with process:
        try:
            yield
        finally:
            process.terminate()


STORES: dict[str, Callable[[Path], AbstractContextManager[Store]]] = {"moto": moto, "versitygw": versitygw}


def _package() -> str:
    return f"{VERSITYGW}@{VERSITYGW_VERSION}"


def _run(*command: str) -> None:
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
