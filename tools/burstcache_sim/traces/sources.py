"""A log's sources: local files, or S3 objects that are downloaded while others are read."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory, mkstemp
from typing import TYPE_CHECKING

from burstcache_sim.traces.files import log_files
from burstcache_sim.traces.reading import LogFile, ReadOptions
from burstcache_sim.traces.remote import SCHEME, fetch, listed, new_client
from burstcache_sim.traces.store import Store

if TYPE_CHECKING:
    from types_boto3_s3 import S3Client


@dataclass
class Sources:
    """A log's files, in read order."""

    files: list[LogFile]
    store: Store | None = None  # of parsed S3 objects

    @property
    def named(self) -> str:
        """The log's name in messages: its first file, and the number of other files."""
        first = self.files[0].name
        return f"{first} line 1" if len(self.files) == 1 else f"{first} and {len(self.files) - 1} more"

    @property
    def has_objects(self) -> bool:
        """Whether any file is an S3 object."""
        return any(file.etag for file in self.files)

    def fetched(self, file: LogFile) -> LogFile:
        """Return the file itself, or a temporary copy if it is an S3 object. The caller deletes the copy."""
        if not file.etag:
            return file
        handle, path = mkstemp(dir=self._folder.name)
        os.close(handle)
        fetch(self._client, file, Path(path))
        return replace(file, path=Path(path))

    def close(self) -> None:
        """Delete the remaining copies, and trim the store. Files may be fetched again afterwards."""
        if folder := self.__dict__.pop("_folder", None):
            folder.cleanup()
        if self.store and self.has_objects:
            self.store.trim()

    @cached_property
    def _client(self) -> S3Client:
        return new_client()

    @cached_property
    def _folder(self) -> TemporaryDirectory[str]:
        return TemporaryDirectory(prefix="burstcache-")


def sources_of(paths: Sequence[str | Path], options: ReadOptions, store: Path | None) -> Sources:
    """Return the files and objects in the paths.

    Args:
        paths: Local files, folders and globs, and S3 prefixes.
        options: Read options. Objects that cannot have requests in the options' time span are left out.
        store: Folder that caches parsed objects, or None.

    Raises:
        BadLogError: A path has no file or object.
    """
    urls = [str(path) for path in paths if str(path).startswith(SCHEME)]
    local = [path for path in paths if not str(path).startswith(SCHEME)]
    files = [_file(path) for path in log_files(local)] if local or not urls else []
    if urls:
        client = new_client()
        objects = (file for url in urls for file in listed(client, url, options.first_us, options.last_us))
        files += {file.name: file for file in objects}.values()  # once each, since one prefix may contain another
    return Sources(files, Store(store) if store and urls else None)


def _file(path: Path) -> LogFile:
    return LogFile(path, str(path), path.stat().st_size if path.is_file() else 0)
