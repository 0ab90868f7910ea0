"""The workers of a Dask cluster read the files of a log, each a part, as the processes of one machine do.

Files have to be where the workers find them: below the same path, as on a shared file system, or in S3.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from burstcache.core.errors import InvalidSettingError

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

    from burstcache_sim.traces.part import Part, Settled
    from burstcache_sim.traces.reading import LogFile

_PACKAGE = "burstcache"
_CONNECT_S = 10


class Cluster:
    """A connection to a Dask cluster whose workers have this version of this package."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self.threads = sum(client.nthreads().values())

    def submit(self, settled: Settled) -> Callable[[list[LogFile]], Future[Part]]:
        """Return a function that has a worker read some files."""
        return lambda files: self._client.submit(settled.read, files, pure=False)


@contextmanager
def cluster_at(address: str) -> Iterator[Cluster]:
    """Connect to a scheduler, such as `tcp://192.0.2.1:8786`, and disconnect at the end.

    Raises:
        InvalidSettingError: The library is missing, no scheduler answers, or its workers cannot read logs.
    """
    try:
        from distributed import Client
    except ImportError:
        raise InvalidSettingError("--dask needs the library distributed: pip install 'burstcache[dask]'") from None
    try:
        client = Client(address, timeout=_CONNECT_S, set_as_default=False)
    except (OSError, ValueError) as error:
        reason = f"no scheduler answers within {_CONNECT_S} s ({str(error).splitlines()[0][:200]})"
        raise InvalidSettingError(f"--dask {address}: {reason}: expected an address like tcp://host:8786") from error
    with client:
        _check_workers(address, client)
        yield Cluster(client)


def _check_workers(address: str, client: Any) -> None:
    here = version(_PACKAGE)
    try:
        found = client.run(version, _PACKAGE)
    except ImportError as error:
        remedy = f"install {_PACKAGE}[dask] {here} there"
        raise InvalidSettingError(f"--dask {address}: its workers do not have {_PACKAGE}: {remedy}") from error
    if not found:
        raise InvalidSettingError(f"--dask {address}: the cluster has no workers: expected at least one")
    if others := {each for each in found.values() if each != here}:
        raise InvalidSettingError(f"--dask {address}: its workers have {_PACKAGE} {min(others)}, this is {here}")
