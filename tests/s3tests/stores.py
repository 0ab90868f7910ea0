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

from burstcache_local.moto.server import moto_server
from s3tests.suite import USERS
from support.project import PYTHONPATH
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


@contextmanager
def gateway(store: Store, bucket: str) -> Iterator[Store]:
    """Run Burstcache's gateway in front of a store. It takes the keys of every user, and signs with the main user's.

    Args:
        store: The store.
        bucket: The bucket that the gateway caches. The gateway does not need it to exist.
    """
    main = USERS[0]
    with TemporaryDirectory() as folder:
        keys = Path(folder) / "keys"
        keys.touch(mode=0o600)
        keys.write_text("".join(f"{user.access_key} {user.secret_key}\n" for user in USERS))
        command = [sys.executable, "-m", "burstcache.command", "gateway", "--port", "0", "--bucket", bucket]
        command += ["--origin-endpoint", store.endpoint_url, "--region", "us-east-1", "--keys-file", str(keys)]
        variables = {"AWS_ACCESS_KEY_ID": main.access_key, "AWS_SECRET_ACCESS_KEY": main.secret_key}
        process = subprocess.Popen(
            command, env=os.environ | variables | {"PYTHONPATH": PYTHONPATH}, stdout=subprocess.PIPE, text=True
        )
        with process:
            try:
                assert process.stdout is not None
                yield Store(process.stdout.readline().split()[0], store.owner)
            finally:
                process.terminate()


STORES: dict[str, Callable[[Path], AbstractContextManager[Store]]] = {"moto": moto, "versitygw": versitygw}


def _package() -> str:
    return f"{VERSITYGW}@{VERSITYGW_VERSION}"


def _run(*command: str) -> None:
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
