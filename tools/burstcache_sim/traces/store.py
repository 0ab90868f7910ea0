"""What was read of objects of S3, kept in a folder, so that the next call fetches only what is new.

A file per object, named by the object's ETag and by how it was read; those not used for longest leave first.
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
from burstcache_sim.traces.reading import Asked, Counts, LogFile

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MOST_BYTES = 4 << 30
_VERSION = "2"  # of what a file means; another one finds none of the former
_SUFFIX = ".npz"
_COLUMNS = 5
_NO_COLUMN: tuple[int, ...] = ()


def default_folder() -> Path:
    """Return where such files are kept: below XDG_CACHE_HOME or ~/.cache."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(base) / "burstcache" / "logs"


@dataclass(frozen=True, slots=True)
class Store:
    """A folder of objects that were read."""

    folder: Path

    def path(self, file: LogFile, asked: Asked, format_: str) -> Path:
        """Return where an object is kept that was read as asked, in this format."""
        options = (str(sorted(asked.names.items())), str(asked.delimiter), str(asked.skip_bad_rows))
        how = (_VERSION, file.name, file.etag, format_, *options)
        return self.folder / (sha256("\n".join(how).encode()).hexdigest()[:32] + _SUFFIX)

    def save(self, path: Path, columns: Columns, counts: Counts) -> None:
        """Keep what was read; where there is no room or no right to, do without."""
        import numpy as np

        keys = list(columns.ids)
        lengths = np.fromiter(map(len, keys), np.int64, len(keys))
        numbers = np.array([counts.rows, counts.bad_rows, len(counts.broken_files)])
        texts = "\n".join(counts.broken_files).encode()
        new = path.with_suffix(f".{os.getpid()}")
        with suppress(OSError):
            self.folder.mkdir(parents=True, exist_ok=True)
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

    def load(self, path: Path) -> tuple[Columns, Counts] | None:
        """Return what is kept, and count it as used; None if there is nothing that can be read."""
        import numpy as np

        try:
            with np.load(path) as kept:
                ends = np.cumsum(kept["lengths"]).tolist()
                whole = kept["keys"].tobytes()
                keys = [whole[start:end] for start, end in zip([0, *ends], ends, strict=False)]
                arrivals_us, key_ids, *amounts = (kept[f"arr_{place}"] for place in range(_COLUMNS))
                amounts = [column if len(column) == len(key_ids) else None for column in amounts]
                columns = Columns.of(keys, arrivals_us, key_ids, *amounts)
                rows, bad_rows, broken = kept["numbers"].tolist()
                texts = kept["broken"].tobytes().decode().split("\n") if broken else []
            os.utime(path)
        except (OSError, ValueError, KeyError, EOFError, BadZipFile):
            return None
        return columns, Counts(rows, bad_rows, 0, texts)

    def trim(self, most_bytes: int = MOST_BYTES) -> None:
        """Delete what was not used for longest, until the folder holds at most this many bytes."""
        with suppress(OSError):
            found = sorted(_files(self.folder), reverse=True)
            held = 0
            for _, size, path in found:
                held += size
                if held > most_bytes:
                    path.unlink(missing_ok=True)


def _files(folder: Path) -> Iterable[tuple[float, int, Path]]:
    """Yield when each file was last used, how long it is, and which it is."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(_SUFFIX):
                status = entry.stat()
                yield status.st_mtime, status.st_size, Path(entry.path)


def _bytes(content: bytes) -> NDArray[np.uint8]:
    import numpy as np

    return np.frombuffer(content, np.uint8)
