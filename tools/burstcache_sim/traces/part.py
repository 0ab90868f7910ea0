"""A part of a log, read apart from the rest, in this process or in another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from zipfile import is_zipfile

from burstcache_sim.traces.columns import Columns
from burstcache_sim.traces.reading import Asked, Counts, LogFile, Reading
from burstcache_sim.traces.remote import fetch, new_client
from burstcache_sim.traces.sampling import Threshold
from burstcache_sim.traces.store import Store


@dataclass(slots=True)
class Part:
    """What some files hold."""

    columns: Columns
    counts: Counts = field(default_factory=Counts)


@dataclass(frozen=True, slots=True)
class Settled:
    """How all files of a log are read once the format is known; what another process is given."""

    asked: Asked
    head: list[bytes]  # the lines that showed the format
    format_describes: str
    guessed_by: str | None
    store: Store | None

    def read(self, files: Sequence[LogFile]) -> Part:
        """Return what some files hold; copies of objects are deleted.

        Raises:
            BadLogError: The first of them that cannot be read.
        """
        reading = self._reading(self.asked)
        for file in files:
            if file.etag:
                self._add_object(file, reading)
            else:
                reading.read(file)
        return Part(reading.columns, reading.counts)

    def is_kept(self, file: LogFile) -> bool:
        """True if an object was read before, and what it holds is kept."""
        return self.store is not None and is_zipfile(self._path(self.store, file))  # false if it is damaged

    def _add_object(self, file: LogFile, reading: Reading) -> None:
        """Add what an object holds, from the store or else from its copy, to what other files hold."""
        whole = self._whole(file)
        outside = reading.columns.merge(whole.columns, self.asked.first_us, self.asked.last_us)
        reading.counts.add(replace(whole.counts, outside=outside))

    def _whole(self, file: LogFile) -> Part:
        """Return what is in an object, of all keys and times."""
        if self.store and (kept := self.store.load(self._path(self.store, file))):
            return Part(*kept)
        reading = self._reading(replace(self.asked, first_us=None, last_us=None, threshold=Threshold()))
        if file.path == Path():  # what was kept is damaged, or was trimmed meanwhile
            _read_anew(file, reading)
        else:
            reading.read(file)
            file.path.unlink()
        if self.store:
            self.store.save(self._path(self.store, file), reading.columns, reading.counts)
        return Part(reading.columns, reading.counts)

    def _path(self, store: Store, file: LogFile) -> Path:
        return store.path(file, self.asked, self.format_describes)

    def _reading(self, asked: Asked) -> Reading:
        reading = Reading(asked, guessed_by=self.guessed_by)
        reading.settle_as(self.head)
        return reading


def _read_anew(file: LogFile, reading: Reading) -> None:
    with TemporaryDirectory(prefix="burstcache-") as folder:
        here = replace(file, path=Path(folder) / "object")
        fetch(new_client(), file, here.path)
        reading.read(here)
