"""Where a log is: files on this machine, or objects of S3 that are copied to it while others are read."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory, mkstemp
from typing import TYPE_CHECKING

from burstcache_sim.traces.files import log_files
from burstcache_sim.traces.reading import Asked, LogFile
from burstcache_sim.traces.remote import SCHEME, fetch, listed, new_client
from burstcache_sim.traces.store import Store

if TYPE_CHECKING:
    from types_boto3_s3 import S3Client


@dataclass
class Sources:
    """The files of a log, in the order in which they are read."""

    files: list[LogFile]
    store: Store | None = None  # of objects of S3

    @property
    def named(self) -> str:
        """How messages call them all."""
        first = self.files[0].name
        return f"{first} line 1" if len(self.files) == 1 else f"{first} and {len(self.files) - 1} more"

    @property
    def has_objects(self) -> bool:
        """Whether some are objects of S3."""
        return any(file.etag for file in self.files)

    def fetched(self, file: LogFile) -> LogFile:
        """Return a file that is on this machine: itself, or a temporary copy of an object, to be deleted."""
        if not file.etag:
            return file
        handle, path = mkstemp(dir=self._folder.name)
        os.close(handle)
        fetch(self._client, file, Path(path))
        return replace(file, path=Path(path))

    def close(self) -> None:
        """Delete what is left of the copies, and of the store what is too much."""
        if "_folder" in self.__dict__:
            self._folder.cleanup()
        if self.store and self.has_objects:
            self.store.trim()

    @cached_property
    def _client(self) -> S3Client:
        return new_client()

    @cached_property
    def _folder(self) -> TemporaryDirectory[str]:
        return TemporaryDirectory(prefix="burstcache-")


def sources_of(paths: Sequence[str | Path], asked: Asked, store: Path | None) -> Sources:
    """Return what the paths name.

    Args:
        paths: Files, folders and globs of this machine, and prefixes of S3.
        asked: Of objects, only those are named that may have requests of the span.
        store: Folder for what was read of objects; None for none.

    Raises:
        BadLogError: A path names nothing that can be read.
    """
    urls = [str(path) for path in paths if str(path).startswith(SCHEME)]
    local = [path for path in paths if not str(path).startswith(SCHEME)]
    files = [_file(path) for path in log_files(local)] if local or not urls else []
    if urls:
        client = new_client()
        found = (file for url in urls for file in listed(client, url, asked.first_us, asked.last_us))
        files += {file.name: file for file in found}.values()  # once each, though one prefix may hold another
    return Sources(files, Store(store) if store and urls else None)


def _file(path: Path) -> LogFile:
    return LogFile(path, str(path), path.stat().st_size if path.is_file() else 0)
