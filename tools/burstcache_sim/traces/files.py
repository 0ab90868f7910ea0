"""A log's files, found by path, folder or glob, and plain or compressed with gzip, zstd, bzip2 or xz."""

from __future__ import annotations

import glob
import os
from codecs import BOM_UTF16_BE, BOM_UTF16_LE, getincrementaldecoder
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any

from burstcache_sim.traces.errors import BadLogError

MAX_LINE_BYTES = 1 << 20
_MAX_RECORDS_BYTES = 64 << 20
_RECORDS, _SHOWN_BYTES = b'"Records"', 200
_COMPRESSED_BYTES = 1 << 16  # per read; the data may expand a thousandfold
_PLAIN_BYTES = 1 << 18
_ZSTD_BYTES = 128
_MAGIC_BYTES = 6
_XZ_MEMORY_BYTES = 128 << 20  # for the dictionary (`xz -9` takes 65 MiB)
_GZIP_WRAPPED = 31  # zlib's wbits for a window of 32 KB with gzip's header and checksum


class BrokenFileError(Exception):
    """A compressed file is truncated or damaged. Its intact beginning has been yielded."""


def log_files(paths: Sequence[str | Path]) -> list[Path]:
    """Return each file in the paths once.

    Args:
        paths: Files, folders (searched recursively, without hidden files) and globs (`**` for any depth).

    Raises:
        BadLogError: A path matches no file, or `paths` is empty.
    """
    by_real_path: dict[str, Path] = {}
    for path in paths:
        for file in _expanded(path):
            by_real_path.setdefault(os.path.realpath(file), file)
    if not by_real_path:
        raise BadLogError("no log given: expected files, folders or globs")
    return list(by_real_path.values())


def _expanded(pattern: str | Path) -> list[Path]:
    path = Path(pattern)
    if path.is_dir():
        files = sorted(file for file in path.rglob("*") if file.is_file() and not _is_hidden(file.relative_to(path)))
    elif path.exists():  # a file or a pipe
        files = [path]
    else:
        files = [Path(match) for match in sorted(glob.glob(str(pattern), recursive=True)) if not os.path.isdir(match)]
    if not files:
        raise BadLogError(f"{pattern}: no such file, and neither a folder nor a glob with files")
    return files


def _is_hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)


class LongLine(bytes):
    """The beginning of a line that exceeds the limit. The rest of the line is dropped."""


def blocks(path: Path) -> Iterator[bytes]:
    """Yield a file's lines in blocks. Only the last line of the last block may lack a line ending.

    To bound memory, a line of more than `MAX_LINE_BYTES` becomes a separate block, a truncated `LongLine`.

    Raises:
        BrokenFileError: The compressed file is damaged. The complete lines before the damage have been yielded.
        OSError: The file cannot be read.
    """
    rest: list[bytes] = []
    held_bytes, limit_bytes, is_skipping = 0, MAX_LINE_BYTES, False
    with path.open("rb") as file:
        for chunk in _as_utf8(_decompressed(file)):
            first = chunk.find(b"\n") + 1
            if is_skipping:
                chunk, is_skipping = chunk[first:], not first
                if is_skipping or not chunk:
                    continue
                first = chunk.find(b"\n") + 1
            if not held_bytes:
                limit_bytes = _limit_bytes(chunk)
            if held_bytes + (first or len(chunk)) > limit_bytes:
                yield LongLine(b"".join((*rest, chunk))[:_SHOWN_BYTES])
                rest.clear()
                held_bytes, is_skipping = 0, not first
                chunk = chunk[first:] if first else b""
            end = chunk.rfind(b"\n") + 1
            if end:
                yield b"".join((*rest, chunk[:end]))
                rest.clear()
                held_bytes, limit_bytes = 0, _limit_bytes(chunk[end:])
            rest.append(chunk[end:])
            held_bytes += len(chunk) - end
    if last := b"".join(rest):
        yield last


def _limit_bytes(line: bytes) -> int:
    """Return the length limit for a line that begins like this. A CloudTrail file is a single line."""
    return _MAX_RECORDS_BYTES if _RECORDS in line[:_SHOWN_BYTES] else MAX_LINE_BYTES


def _as_utf8(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Convert UTF-16 with a byte order mark to UTF-8. Yield other text unchanged."""
    decoder = None
    for number, chunk in enumerate(chunks):
        if not number and chunk.startswith((BOM_UTF16_LE, BOM_UTF16_BE)):
            decoder = getincrementaldecoder("utf-16")("replace")
        yield decoder.decode(chunk).encode("utf-8", "replace") if decoder else chunk


def _decompressed(file: IO[bytes]) -> Iterator[bytes]:
    """Yield a file's content in pieces of bounded length. Compression is detected by magic bytes."""
    chunk = file.read(_PLAIN_BYTES)
    for magics, new_decompressor in _DECOMPRESSORS.items():
        if chunk.startswith(magics):
            yield from _members(chunk, file, new_decompressor, magics)
            return
    while chunk:
        yield chunk
        chunk = file.read(_PLAIN_BYTES)


def _members(
    chunk: bytes, file: IO[bytes], new_decompressor: Callable[[], _Decompressor], magics: tuple[bytes, ...]
) -> Iterator[bytes]:
    """Yield the content of a compressed file with one or more members, optionally separated by zeros."""
    decompressor = new_decompressor()
    is_between = False
    while chunk:
        if is_between and (chunk := chunk.lstrip(b"\0")):
            if len(chunk) < _MAGIC_BYTES:
                chunk += file.read(_COMPRESSED_BYTES)
            if not any(chunk.startswith(magic[: len(chunk)]) for magic in magics):
                raise BrokenFileError("other data follows the compressed content")
            decompressor, is_between = new_decompressor(), False
        if chunk:
            try:
                yield from decompressor.pieces(chunk)
            except Exception as error:  # the libraries' errors have no common base class
                raise BrokenFileError(str(error)) from error
        if chunk and decompressor.eof:
            chunk, is_between = decompressor.unused_data, True
        else:
            chunk = b""
        chunk = chunk or file.read(_COMPRESSED_BYTES)
    if not is_between:
        raise BrokenFileError("it is truncated")


class _Decompressor:
    """A decompressor for one member, which yields pieces of bounded length through the library's output limit."""

    def __init__(self, library: Any) -> None:
        self._library = library

    @property
    def eof(self) -> bool:
        """Whether the member has ended."""
        return bool(self._library.eof)

    @property
    def unused_data(self) -> bytes:
        """The data after the member."""
        return bytes(self._library.unused_data)

    def pieces(self, chunk: bytes) -> Iterator[bytes]:
        """Yield the decompressed content of a chunk."""
        while not self.eof:
            piece = self._library.decompress(chunk, _PLAIN_BYTES)
            if piece:
                yield piece
            chunk = getattr(self._library, "unconsumed_tail", b"")
            if not chunk and len(piece) < _PLAIN_BYTES:
                return


class _ZstdDecompressor(_Decompressor):
    """A decompressor for a library without an output limit. Inputs are short, because 4 bytes may become 128 KiB."""

    def pieces(self, chunk: bytes) -> Iterator[bytes]:
        """Yield the decompressed content of a chunk."""
        pieces: list[bytes] = []
        pieces_bytes = 0
        for start in range(0, len(chunk), _ZSTD_BYTES):
            piece = self._library.decompress(chunk[start : start + _ZSTD_BYTES])
            pieces.append(piece)
            pieces_bytes += len(piece)
            if self.eof:
                self._rest = bytes(self._library.unused_data) + chunk[start + _ZSTD_BYTES :]
                break
            if pieces_bytes >= _PLAIN_BYTES:
                yield b"".join(pieces)
                pieces, pieces_bytes = [], 0
        if pieces_bytes:
            yield b"".join(pieces)

    @property
    def unused_data(self) -> bytes:
        """The data after the frame."""
        return self._rest


def _gzip() -> _Decompressor:
    from isal import isal_zlib  # twice as fast as zlib

    return _Decompressor(isal_zlib.decompressobj(_GZIP_WRAPPED))


def _zstd() -> _Decompressor:
    from zstandard import ZstdDecompressor

    return _ZstdDecompressor(ZstdDecompressor().decompressobj())


def _bzip2() -> _Decompressor:
    from bz2 import BZ2Decompressor

    return _Decompressor(BZ2Decompressor())


def _xz() -> _Decompressor:
    from lzma import FORMAT_XZ, LZMADecompressor

    return _Decompressor(LZMADecompressor(FORMAT_XZ, _XZ_MEMORY_BYTES))


# Sixteen magic numbers mark zstd's skippable frames, which pzstd writes.
_SKIPPABLE = tuple(bytes((0x50 + number, 0x2A, 0x4D, 0x18)) for number in range(16))
_DECOMPRESSORS: dict[tuple[bytes, ...], Callable[[], _Decompressor]] = {
    (b"\x1f\x8b",): _gzip,
    (b"\x28\xb5\x2f\xfd", *_SKIPPABLE): _zstd,
    (b"BZh",): _bzip2,
    (b"\xfd7zXZ\0",): _xz,
}
