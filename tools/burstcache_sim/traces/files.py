"""The files of a log: named, in folders or by globs, plain or packed by gzip or zstd."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any

from burstcache_sim.traces.errors import BadLogError

_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_PACKED_BYTES = 1 << 16  # read at a time; what is in them may be a thousand times as long
_PLAIN_BYTES = 1 << 18
_GZIP_WRAPPED = 31  # zlib's word for a window of 32 KB between gzip's header and checksum


class BrokenFileError(Exception):
    """A packed file ends early or is damaged; what could be unpacked has been handed over."""


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


def blocks(path: Path) -> Iterator[bytes]:
    """Yield a file's lines, many together; only the last line of the last block may lack its end.

    Raises:
        BrokenFileError: The file is packed and broken; its whole lines up to there have been yielded.
        OSError: The file cannot be read.
    """
    rest: list[bytes] = []
    with path.open("rb") as file:
        for chunk in _unpacked(file):
            end = chunk.rfind(b"\n") + 1
            if end:
                yield b"".join((*rest, chunk[:end]))
                rest.clear()
            rest.append(chunk[end:])
    if last := b"".join(rest):
        yield last


def _unpacked(file: IO[bytes]) -> Iterator[bytes]:
    """Yield a file's content; gzip and zstd are recognised by the first bytes, whatever the name."""
    chunk = file.read(_PLAIN_BYTES)
    if chunk.startswith(_GZIP):
        yield from _members(chunk, file, _gzip_unpacker, _GZIP)
    elif chunk.startswith(_ZSTD):
        yield from _members(chunk, file, _zstd_unpacker, b"")
    else:
        while chunk:
            yield chunk
            chunk = file.read(_PLAIN_BYTES)


def _members(chunk: bytes, file: IO[bytes], new_unpacker: Callable[[], Any], magic: bytes) -> Iterator[bytes]:
    """Yield what is in a packed file, which may consist of several members, gzip's with zeros between them."""
    unpacker = new_unpacker()
    is_between = False
    while chunk:
        if is_between and (chunk := chunk.lstrip(b"\0")):
            if not chunk.startswith(magic[: len(chunk)]):
                raise BrokenFileError("something else follows what is packed")
            unpacker, is_between = new_unpacker(), False
        if chunk:
            try:
                yield unpacker.decompress(chunk)
            except Exception as error:  # each library has its own, and none a common base
                raise BrokenFileError(str(error)) from error
        if chunk and unpacker.eof:
            chunk, is_between = unpacker.unused_data, True
        else:
            chunk = b""
        chunk = chunk or file.read(_PACKED_BYTES)
    if not is_between:
        raise BrokenFileError("it ends early")


def _gzip_unpacker() -> Any:
    from isal import isal_zlib  # twice as fast as zlib

    return isal_zlib.decompressobj(_GZIP_WRAPPED)


def _zstd_unpacker() -> Any:
    from zstandard import ZstdDecompressor

    return ZstdDecompressor().decompressobj()
