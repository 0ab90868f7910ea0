"""Registration of a machine's gateways: each has a file in this user's runtime directory as long as it runs.

A running gateway holds a lock on its file, so a file without a lock is of a gateway that was killed.
"""

from __future__ import annotations

import json
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from burstcache.logs import logger

HEALTH_PATH, METRICS_PATH = "/-/healthz", "/-/metrics"  # no bucket's name begins with `-`
_SUFFIX = ".json"
_MOST_BYTES = 4096


@dataclass(frozen=True, slots=True)
class RegisteredGateway:
    """A gateway of this machine.

    Attributes:
        url: Its endpoint.
        metrics_url: Its metrics. Empty: they cannot be read from here.
        process_id: The process to stop it by.
        bucket: The bucket that it caches.
    """

    url: str
    metrics_url: str
    process_id: int
    bucket: str


def registry_directory() -> Path:
    """Return the directory of this user's gateways, which may not exist."""
    if base := os.environ.get("XDG_RUNTIME_DIR", ""):
        return Path(base) / "burstcache" / "gateways"
    return Path(tempfile.gettempdir()) / f"burstcache-{os.geteuid()}" / "gateways"


@contextmanager
def registered(gateway: RegisteredGateway) -> Iterator[None]:
    """Register a gateway for the duration of a `with`. Failures are logged, since the gateway serves without it."""
    path, file = None, -1
    try:
        path = registry_directory() / f"{gateway.process_id}{_SUFFIX}"  # fails if nothing can be written anywhere
        file = _register(gateway, path)
    except OSError as error:
        logger().warning("the dashboard does not find this gateway", reason=str(error))
    try:
        yield
    finally:
        if path is not None and file >= 0:
            with suppress(OSError):
                path.unlink()
            os.close(file)


def _register(gateway: RegisteredGateway, path: Path) -> int:
    """Write a gateway's file and return its descriptor, which holds the lock."""
    import fcntl  # Windows has none

    path.parent.parent.mkdir(mode=0o700, exist_ok=True)
    path.parent.mkdir(mode=0o700, exist_ok=True)
    _check_directory(path.parent)
    part = path.with_suffix(".part")
    part.unlink(missing_ok=True)
    file = os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.write(file, json.dumps(asdict(gateway)).encode())
        part.rename(path)
    except BaseException:
        os.close(file)
        raise
    return file


def registered_gateways() -> list[RegisteredGateway]:
    """Return the running gateways of this user and machine, by process. Remove the files of those that were killed."""
    try:
        directory = registry_directory()
        _check_directory(directory)
        names = sorted(name for name in os.listdir(directory) if name.endswith(_SUFFIX))
    except OSError:
        return []
    found = [_read(directory / name) for name in names]
    return sorted((each for each in found if each is not None), key=lambda each: each.process_id)


def _read(path: Path) -> RegisteredGateway | None:
    import fcntl  # Windows has none, and no such directory

    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return _gateway(os.read(file, _MOST_BYTES))
        with suppress(OSError):
            path.unlink()
        return None
    finally:
        os.close(file)


def _gateway(text: bytes) -> RegisteredGateway | None:
    try:
        return RegisteredGateway(**json.loads(text))
    except (ValueError, TypeError):  # of another version
        return None


def _check_directory(path: Path) -> None:
    """Raise OSError if others could write into a directory: in a shared folder, anybody may create it first."""
    for each in (path.parent, path):
        status = each.lstat()
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o022:
            raise PermissionError(f"{each} is not a directory that only this user can write to")
