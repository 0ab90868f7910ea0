"""A store of parsed S3 objects in a folder, so that the next call fetches only new objects.

It has one file per object, named by a hash of the object's name, ETag and read options. Eviction is LRU.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING
from zipfile import BadZipFile

from burstcache_sim.traces.columns import Columns
from burstcache_sim.traces.reading import LogFile, ReadOptions, RowCounts

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MAX_STORE_BYTES = 4 << 30
_VERSION = "2"  # of the file format; files of other versions are ignored
_SUFFIX = ".npz"
_COLUMNS = 5
_NO_COLUMN: tuple[int, ...] = ()


def default_folder() -> Path:
    """Return the default folder of the store: below XDG_CACHE_HOME or ~/.cache."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(base) / "burstcache" / "logs"


@dataclass(frozen=True, slots=True)
class Store:
    """A folder of parsed objects."""

    folder: Path

    def path(self, file: LogFile, options: ReadOptions, format_: str) -> Path:
        """Return the path for an object parsed with these options in this format."""
        texts = (str(sorted(options.names.items())), str(options.delimiter), str(options.skip_bad_rows))
        identity = (_VERSION, file.name, file.etag, format_, *texts)
        return self.folder / (sha256("\n".join(identity).encode()).hexdigest()[:32] + _SUFFIX)

    def save(self, path: Path, columns: Columns, counts: RowCounts) -> None:
        """Store a parsed object. Ignore a full disk or missing permission, and leave no partial file."""
        import numpy as np

        keys = list(columns.ids)
        lengths = np.fromiter(map(len, keys), np.int64, len(keys))
        numbers = np.array([counts.rows, counts.bad_rows, len(counts.broken_files)])
        texts = "\n".join(counts.broken_files).encode()
        # The suffix lets `trim` find the file if this process is killed.
        new = path.with_suffix(f".{os.getpid()}{_SUFFIX}")
        with suppress(OSError):
            self.folder.mkdir(parents=True, exist_ok=True)
            try:
                with new.open("wb") as file:
                    np.savez(
                        file,
                        *(_NO_COLUMN if column is None else column for column in columns.arrays()),
                        keys=_bytes(b"".join(keys)),
                        lengths=lengths,
                        numbers=numbers,
                        broken=_bytes(texts),
                    )
                new.replace(path)
            finally:
                new.unlink(missing_ok=True)

    def load(self, path: Path) -> tuple[Columns, RowCounts] | None:
        """Return a stored object and mark it as recently used, or return None if there is no readable file."""
        import numpy as np

        try:
            with np.load(path) as stored:
                ends = np.cumsum(stored["lengths"]).tolist()
                joined = stored["keys"].tobytes()
                keys = [joined[start:end] for start, end in zip([0, *ends], ends, strict=False)]
                arrivals_us, key_ids, *amounts = (stored[f"arr_{place}"] for place in range(_COLUMNS))
                amounts = [column if len(column) == len(key_ids) else None for column in amounts]
                columns = Columns.of(keys, arrivals_us, key_ids, *amounts)
                rows, bad_rows, broken = stored["numbers"].tolist()
                texts = stored["broken"].tobytes().decode().split("\n") if broken else []
            os.utime(path)
        except (OSError, ValueError, KeyError, EOFError, BadZipFile):
            return None
        return columns, RowCounts(rows, bad_rows, 0, texts)

    def trim(self, max_bytes: int = MAX_STORE_BYTES) -> None:
        """Delete the least recently used files until the folder is within the size limit."""
        with suppress(OSError):
            newest_first = sorted(_files(self.folder), reverse=True)
            total_bytes = 0
            for _, size, path in newest_first:
                total_bytes += size
                if total_bytes > max_bytes:
                    path.unlink(missing_ok=True)


def _files(folder: Path) -> Iterable[tuple[float, int, Path]]:
    """Yield each file's time of last use, size and path."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(_SUFFIX):
                status = entry.stat()
                yield status.st_mtime, status.st_size, Path(entry.path)


def _bytes(content: bytes) -> NDArray[np.uint8]:
    import numpy as np

    return np.frombuffer(content, np.uint8)
