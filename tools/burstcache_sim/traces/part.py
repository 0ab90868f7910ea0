"""A part of a log, and a reader for parts in this or another process."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from zipfile import is_zipfile

from burstcache_sim.traces.columns import Columns
from burstcache_sim.traces.reading import LogFile, LogReader, ReadOptions, RowCounts
from burstcache_sim.traces.remote import fetch, new_client
from burstcache_sim.traces.sampling import Threshold
from burstcache_sim.traces.store import Store


@dataclass(slots=True)
class LogPart:
    """The requests and row counts of some files."""

    columns: Columns
    counts: RowCounts = field(default_factory=RowCounts)


@dataclass(frozen=True, slots=True)
class PartReader:
    """A picklable reader for parts of a log with a known format."""

    options: ReadOptions
    head: list[bytes]  # the lines that the format was detected from
    format_describes: str
    detected_in: str | None
    store: Store | None

    def read(self, files: Sequence[LogFile]) -> LogPart:
        """Read a part from its files, and delete the local copies of S3 objects.

        Raises:
            BadLogError: A file cannot be read. The message names the first such file.
        """
        reader = self._new_reader(self.options)
        for file in files:
            if file.etag:
                self._add_object(file, reader)
            else:
                reader.read(file)
        return LogPart(reader.columns, reader.counts)

    def is_stored(self, file: LogFile) -> bool:
        """Return whether the store has a parsed object."""
        return self.store is not None and is_zipfile(self._path(self.store, file))  # false for a damaged file

    def _add_object(self, file: LogFile, reader: LogReader) -> None:
        """Add an object's requests, from the store or a local copy, to a reader."""
        whole = self._whole(file)
        outside = reader.columns.merge(whole.columns, self.options.first_us, self.options.last_us)
        reader.counts.add(replace(whole.counts, outside=outside))

    def _whole(self, file: LogFile) -> LogPart:
        """Return an object's requests for all keys and times."""
        if self.store and (stored := self.store.load(self._path(self.store, file))):
            return LogPart(*stored)
        reader = self._new_reader(replace(self.options, first_us=None, last_us=None, threshold=Threshold()))
        if file.path == Path():  # the stored file is damaged, or was evicted in the meantime
            _fetch_and_read(file, reader)
        else:
            reader.read(file)
            file.path.unlink()
        if self.store:
            self.store.save(self._path(self.store, file), reader.columns, reader.counts)
        return LogPart(reader.columns, reader.counts)

    def _path(self, store: Store, file: LogFile) -> Path:
        return store.path(file, self.options, self.format_describes)

    def _new_reader(self, options: ReadOptions) -> LogReader:
        reader = LogReader(options, detected_in=self.detected_in)
        reader.use_format_of(self.head)
        return reader


def _fetch_and_read(file: LogFile, reader: LogReader) -> None:
    with TemporaryDirectory(prefix="burstcache-") as folder:
        copy = replace(file, path=Path(folder) / "object")
        fetch(new_client(), file, copy.path)
        reader.read(copy)
