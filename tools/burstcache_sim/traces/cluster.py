"""A Dask cluster whose workers read parts of a log, like local worker processes.

Workers must be able to read the files, either from S3 or at the same paths of a shared file system.
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

    from burstcache_sim.traces.part import LogPart, PartReader
    from burstcache_sim.traces.reading import LogFile

_PACKAGE = "burstcache-tools"  # has this module, and requires the same version of `burstcache`
_CONNECT_S = 10


class Cluster:
    """A connection to a Dask cluster. All of its workers run this version of the package."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self.threads = sum(client.nthreads().values())

    def submitter(self, reader: PartReader) -> Callable[[list[LogFile]], Future[LogPart]]:
        """Return a function that submits files to a worker."""
        return lambda files: self._client.submit(reader.read, files, pure=False)


@contextmanager
def cluster_at(address: str) -> Iterator[Cluster]:
    """Connect to a scheduler, such as `tcp://192.0.2.1:8786`, within a `with` block.

    Raises:
        InvalidSettingError: The library is missing, the scheduler is unreachable, or its workers cannot read logs.
    """
    try:
        from distributed import Client
    except ImportError:
        raise InvalidSettingError("--dask needs distributed: pip install 'burstcache-tools[dask]'") from None
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
        versions = client.run(version, _PACKAGE)
    except ImportError as error:
        remedy = f"install {_PACKAGE}[dask] {here} there"
        raise InvalidSettingError(f"--dask {address}: its workers do not have {_PACKAGE}: {remedy}") from error
    if not versions:
        raise InvalidSettingError(f"--dask {address}: the cluster has no workers: expected at least one")
    if others := {each for each in versions.values() if each != here}:
        raise InvalidSettingError(f"--dask {address}: its workers have {_PACKAGE} {min(others)}, this is {here}")
