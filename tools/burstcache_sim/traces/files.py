"""The files of a log: named, in folders or by globs, plain or packed by gzip, zstd, bzip2 or xz."""

from __future__ import annotations

import glob
import os
from codecs import BOM_UTF16_BE, BOM_UTF16_LE, getincrementaldecoder
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any

from burstcache_sim.traces.errors import BadLogError

MOST_LINE_BYTES = 1 << 20
_MOST_RECORDS_BYTES = 64 << 20
_RECORDS, _SHOWN_BYTES = b'"Records"', 200
_PACKED_BYTES = 1 << 16  # read at a time; what is in them may be a thousand times as long
_PLAIN_BYTES = 1 << 18
_ZSTD_BYTES = 128
_MAGIC_BYTES = 6
_XZ_MEMORY_BYTES = 128 << 20  # of the window; `xz -9` takes 65 MiB
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


class LongLine(bytes):
    """The beginning of a line that is too long to be one of a log; what follows of it is not handed over."""


def blocks(path: Path) -> Iterator[bytes]:
    """Yield a file's lines, many together; only the last line of the last block may lack its end.

    A line of more than `MOST_LINE_BYTES` is a block of its own, a `LongLine`, of which no more than that is held.

    Raises:
        BrokenFileError: The file is packed and broken; its whole lines up to there have been yielded.
        OSError: The file cannot be read.
    """
    rest: list[bytes] = []
    held_bytes, most_bytes, is_skipping = 0, MOST_LINE_BYTES, False
    with path.open("rb") as file:
        for chunk in _as_utf8(_unpacked(file)):
            first = chunk.find(b"\n") + 1
            if is_skipping:
                chunk, is_skipping = chunk[first:], not first
                if is_skipping or not chunk:
                    continue
                first = chunk.find(b"\n") + 1
            if not held_bytes:
                most_bytes = _most_bytes(chunk)
            if held_bytes + (first or len(chunk)) > most_bytes:
                yield LongLine(b"".join((*rest, chunk))[:_SHOWN_BYTES])
                rest.clear()
                held_bytes, is_skipping = 0, not first
                chunk = chunk[first:] if first else b""
            end = chunk.rfind(b"\n") + 1
            if end:
                yield b"".join((*rest, chunk[:end]))
                rest.clear()
                held_bytes, most_bytes = 0, _most_bytes(chunk[end:])
            rest.append(chunk[end:])
            held_bytes += len(chunk) - end
    if last := b"".join(rest):
        yield last


def _most_bytes(line: bytes) -> int:
    """Return how long a line that begins so may be: a file of CloudTrail is a single one."""
    return _MOST_RECORDS_BYTES if _RECORDS in line[:_SHOWN_BYTES] else MOST_LINE_BYTES


def _as_utf8(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Yield text of UTF-16, which its byte order mark shows, as UTF-8; all else as it is."""
    decoder = None
    for number, chunk in enumerate(chunks):
        if not number and chunk.startswith((BOM_UTF16_LE, BOM_UTF16_BE)):
            decoder = getincrementaldecoder("utf-16")("replace")
        yield decoder.decode(chunk).encode("utf-8", "replace") if decoder else chunk


def _unpacked(file: IO[bytes]) -> Iterator[bytes]:
    """Yield a file's content in pieces of bounded length; packed ones are recognised by their first bytes."""
    chunk = file.read(_PLAIN_BYTES)
    for magics, unpacking in _UNPACKERS.items():
        if chunk.startswith(magics):
            yield from _members(chunk, file, unpacking, magics)
            return
    while chunk:
        yield chunk
        chunk = file.read(_PLAIN_BYTES)


def _members(
    chunk: bytes, file: IO[bytes], unpacking: Callable[[], _Unpacker], magics: tuple[bytes, ...]
) -> Iterator[bytes]:
    """Yield what is in a packed file, which may consist of several members with zeros between them."""
    unpacker = unpacking()
    is_between = False
    while chunk:
        if is_between and (chunk := chunk.lstrip(b"\0")):
            if len(chunk) < _MAGIC_BYTES:
                chunk += file.read(_PACKED_BYTES)
            if not any(chunk.startswith(magic[: len(chunk)]) for magic in magics):
                raise BrokenFileError("something else follows what is packed")
            unpacker, is_between = unpacking(), False
        if chunk:
            try:
                yield from unpacker.pieces(chunk)
            except Exception as error:  # each library has its own, and none a common base
                raise BrokenFileError(str(error)) from error
        if chunk and unpacker.eof:
            chunk, is_between = unpacker.unused_data, True
        else:
            chunk = b""
        chunk = chunk or file.read(_PACKED_BYTES)
    if not is_between:
        raise BrokenFileError("it ends early")


class _Unpacker:
    """Unpacks one member in pieces of bounded length; the library's object limits what it returns at a time."""

    def __init__(self, library: Any) -> None:
        self._library = library

    @property
    def eof(self) -> bool:
        """Whether the member has ended."""
        return bool(self._library.eof)

    @property
    def unused_data(self) -> bytes:
        """What follows the member."""
        return bytes(self._library.unused_data)

    def pieces(self, chunk: bytes) -> Iterator[bytes]:
        """Yield what a part of the member holds."""
        while not self.eof:
            piece = self._library.decompress(chunk, _PLAIN_BYTES)
            if piece:
                yield piece
            chunk = getattr(self._library, "unconsumed_tail", b"")
            if not chunk and len(piece) < _PLAIN_BYTES:
                return


class _ZstdUnpacker(_Unpacker):
    """As the other one, for a library without a limit: few bytes at a time, of which 4 may stand for 128 KiB."""

    def pieces(self, chunk: bytes) -> Iterator[bytes]:
        """Yield what a part of the frame holds."""
        found: list[bytes] = []
        found_bytes = 0
        for start in range(0, len(chunk), _ZSTD_BYTES):
            piece = self._library.decompress(chunk[start : start + _ZSTD_BYTES])
            found.append(piece)
            found_bytes += len(piece)
            if self.eof:
                self._rest = bytes(self._library.unused_data) + chunk[start + _ZSTD_BYTES :]
                break
            if found_bytes >= _PLAIN_BYTES:
                yield b"".join(found)
                found, found_bytes = [], 0
        if found_bytes:
            yield b"".join(found)

    @property
    def unused_data(self) -> bytes:
        """What follows the frame."""
        return self._rest


def _gzip() -> _Unpacker:
    from isal import isal_zlib  # twice as fast as zlib

    return _Unpacker(isal_zlib.decompressobj(_GZIP_WRAPPED))


def _zstd() -> _Unpacker:
    from zstandard import ZstdDecompressor

    return _ZstdUnpacker(ZstdDecompressor().decompressobj())


def _bzip2() -> _Unpacker:
    from bz2 import BZ2Decompressor

    return _Unpacker(BZ2Decompressor())


def _xz() -> _Unpacker:
    from lzma import FORMAT_XZ, LZMADecompressor

    return _Unpacker(LZMADecompressor(FORMAT_XZ, _XZ_MEMORY_BYTES))


# By the first bytes of a member; zstd's skippable frames (pzstd writes them) have sixteen of their own.
_SKIPPABLE = tuple(bytes((0x50 + number, 0x2A, 0x4D, 0x18)) for number in range(16))
_UNPACKERS: dict[tuple[bytes, ...], Callable[[], _Unpacker]] = {
    (b"\x1f\x8b",): _gzip,
    (b"\x28\xb5\x2f\xfd", *_SKIPPABLE): _zstd,
    (b"BZh",): _bzip2,
    (b"\xfd7zXZ\0",): _xz,
}
