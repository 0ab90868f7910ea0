"""The files of a log: named, in folders or by globs, plain or gzip."""

from __future__ import annotations

import glob
import gzip
import io
import os
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from burstcache_sim.traces.errors import BadLogError

GZIP_MAGIC = b"\x1f\x8b"
# What reading a broken or missing file raises.
READ_ERRORS = (OSError, EOFError, zlib.error)


def log_files(paths: Sequence[str | Path]) -> list[Path]:
    """Return every file that the paths name, once each.

    Args:
        paths: Files, folders (everything in them at any depth except hidden files) and globs (`**` for any depth).

    Raises:
        BadLogError: A path matches no file, or there is no path.
    """
    found: dict[str, Path] = {}
    for path in paths:
        for file in _expanded(path):
            found.setdefault(os.path.realpath(file), file)
    if not found:
        raise BadLogError("no log is named: expected files, folders or globs")
    return list(found.values())


def _expanded(named: str | Path) -> list[Path]:
    path = Path(named)
    if path.is_dir():
        files = sorted(file for file in path.rglob("*") if file.is_file() and not _is_hidden(file.relative_to(path)))
    elif path.exists():  # a pipe too
        files = [path]
    else:
        files = [Path(match) for match in sorted(glob.glob(str(named), recursive=True)) if not os.path.isdir(match)]
    if not files:
        raise BadLogError(f"{named}: no such file, and neither a folder nor a glob with files")
    return files


def _is_hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)


@contextmanager
def open_log(path: Path) -> Iterator[IO[bytes]]:
    """Open a log for reading by lines; gzip is recognised by its first bytes, whatever the name."""
    with path.open("rb") as raw:
        if raw.peek(2)[:2] != GZIP_MAGIC:
            yield raw
            return
        with gzip.GzipFile(fileobj=raw) as unzipped:
            yield io.BufferedReader(unzipped, 1 << 18)
