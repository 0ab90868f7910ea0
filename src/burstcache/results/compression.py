"""Compression of what is stored where others read it, too; memory keeps results as they are."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import NamedTuple

from burstcache.core.errors import InvalidSettingError


class Compression(NamedTuple):
    """A named way to make bytes fewer. `expand` is given the size of what comes out, and makes no more [bytes]."""

    name: str
    compress: Callable[[bytes], bytes]
    expand: Callable[[bytes, int], bytes]


def _expand_zlib(data: bytes, size_bytes: int) -> bytes:
    expander = zlib.decompressobj()
    plain = expander.decompress(data, max(1, size_bytes))
    if not expander.eof:
        raise ValueError("it is cut off, or larger than it says")
    return plain


def _zlib() -> Compression:
    return Compression("zlib", lambda data: zlib.compress(data, 1), _expand_zlib)


def _zstd() -> Compression:
    import zstandard

    def expand(data: bytes, size_bytes: int) -> bytes:
        if zstandard.frame_content_size(data) != size_bytes:  # a frame that names its size is expanded to that
            raise ValueError("its size is not what it says")
        return zstandard.ZstdDecompressor().decompress(data)

    return Compression("zstd", lambda data: zstandard.ZstdCompressor(level=3).compress(data), expand)


_BY_NAME = {"zlib": _zlib, "zstd": _zstd}


def compression_named(name: str) -> Compression:
    """Return a compression by its name.

    Raises:
        InvalidSettingError: There is no such compression, or its library is not installed.
    """
    if name not in _BY_NAME:
        raise InvalidSettingError(f"compression={name!r}; accepted: {', '.join(_BY_NAME)}")
    try:
        return _BY_NAME[name]()
    except ImportError as error:
        raise InvalidSettingError(f"compression={name!r} needs `pip install zstandard`; zlib needs nothing") from error
