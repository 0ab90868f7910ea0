"""Compression of results in shared stores. Results in memory stay uncompressed."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import NamedTuple

from burstcache.core.errors import InvalidSettingError


class Compression(NamedTuple):
    """A named compression method. `expand` takes the original size [bytes], and returns at most that many bytes."""

    name: str
    compress: Callable[[bytes], bytes]
    expand: Callable[[bytes, int], bytes]


def _expand_zlib(data: bytes, size_bytes: int) -> bytes:
    expander = zlib.decompressobj()
    plain = expander.decompress(data, max(1, size_bytes))
    if not expander.eof:
        raise ValueError("it is truncated, or larger than its stated size")
    return plain


def _zlib() -> Compression:
    return Compression("zlib", lambda data: zlib.compress(data, 1), _expand_zlib)


def _zstd() -> Compression:
    import zstandard

    def expand(data: bytes, size_bytes: int) -> bytes:
        if zstandard.frame_content_size(data) != size_bytes:  # zstandard trusts the size stated in the frame
            raise ValueError("its size is not the stated size")
        return zstandard.ZstdDecompressor().decompress(data)

    return Compression("zstd", lambda data: zstandard.ZstdCompressor(level=3).compress(data), expand)


_BY_NAME = {"zlib": _zlib, "zstd": _zstd}


def compression_named(name: str) -> Compression:
    """Return the compression method with this name.

    Raises:
        InvalidSettingError: There is no such method, or its library is not installed.
    """
    if name not in _BY_NAME:
        raise InvalidSettingError(f"compression={name!r}; accepted: {', '.join(_BY_NAME)}")
    try:
        return _BY_NAME[name]()
    except ImportError as error:
        raise InvalidSettingError(f"compression={name!r} needs `pip install zstandard`; zlib needs nothing") from error
