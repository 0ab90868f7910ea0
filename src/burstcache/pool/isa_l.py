"""Intel's ISA-L: CRC32C and Reed-Solomon codes, computed in place.

The library comes with pyeclib's wheels. This module calls it directly, because pyeclib copies its input and its output,
and the copies take longer than the arithmetic.
"""

from __future__ import annotations

import functools
import importlib.metadata
from collections.abc import Mapping, Sequence
from typing import Any

import cffi

from burstcache.core.pool.chunk_store import Buffer

_ffi = cffi.FFI()
_ffi.cdef(
    """
    unsigned int crc32_iscsi(unsigned char *buffer, int len, unsigned int init_crc);
    void gf_gen_cauchy1_matrix(unsigned char *a, int m, int k);
    int gf_invert_matrix(unsigned char *in, unsigned char *out, const int n);
    void ec_init_tables(int k, int rows, unsigned char *a, unsigned char *gftbls);
    void ec_encode_data(int len, int k, int rows, unsigned char *gftbls, unsigned char **data, unsigned char **coding);
    """
)
_LIBRARY = "libisal-pyeclib"
_TABLE_BYTES = 32  # per coefficient, `ec_init_tables`
_ALL_BITS = 0xFFFFFFFF


def _load() -> Any:
    files = importlib.metadata.files("pyeclib") or ()
    for file in files:
        if file.name.startswith(_LIBRARY):
            return _ffi.dlopen(str(file.locate()))
    raise ImportError(f"pyeclib is installed without {_LIBRARY}; its wheels have it: pip install burstcache[pool]")


_isal = _load()


_allocate = _ffi.new_allocator(should_clear_after_alloc=False)


def room(size_bytes: int) -> memoryview:
    """Return uninitialized memory. `bytearray` would clear its memory first."""
    return memoryview(_ffi.buffer(_allocate("unsigned char[]", size_bytes)))


def crc32c(data: Buffer, former: int = 0) -> int:
    """Return the CRC32C of `data`, continuing `former`, the CRC32C of preceding bytes (RFC 3720, appendix B.4)."""
    crc = _isal.crc32_iscsi(_ffi.from_buffer("unsigned char[]", data), len(data), former ^ _ALL_BITS)
    return int(crc) ^ _ALL_BITS


class ReedSolomon:
    """A systematic Reed-Solomon code: any `data` of its `data + parity` blocks determine the others.

    Blocks are numbered, data blocks first. All blocks of one call have the same length.

    Source:
        Blömer et al., "An XOR-based erasure-resilient coding scheme", 1995: Cauchy matrices.
    """

    def __init__(self, data: int, parity: int) -> None:
        self._data = data
        self._matrix = _ffi.new("unsigned char[]", (data + parity) * data)
        _isal.gf_gen_cauchy1_matrix(self._matrix, data + parity, data)

    def encode(self, blocks: Sequence[Buffer], parities: Mapping[int, Buffer]) -> None:
        """Compute parity blocks.

        Args:
            blocks: All data blocks, in order.
            parities: Destinations by block index.
        """
        rows = b"".join(self._row(number) for number in parities)
        self._multiply(rows, blocks, list(parities.values()))

    def rebuild(self, blocks: Mapping[int, Buffer], lost: Mapping[int, Buffer]) -> None:
        """Rebuild lost data blocks.

        Args:
            blocks: Any `data` of the remaining blocks, by index.
            lost: Destinations by the index of a data block.
        """
        left = _ffi.new("unsigned char[]", b"".join(self._row(number) for number in blocks))
        inverse = _ffi.new("unsigned char[]", self._data * self._data)
        if _isal.gf_invert_matrix(left, inverse, self._data):
            raise ArithmeticError(f"the blocks {sorted(blocks)} do not determine the others")
        every = bytes(_ffi.buffer(inverse))
        rows = b"".join(every[number * self._data : (number + 1) * self._data] for number in lost)
        self._multiply(rows, list(blocks.values()), list(lost.values()))

    def _row(self, number: int) -> bytes:
        return bytes(_ffi.buffer(self._matrix)[number * self._data : (number + 1) * self._data])

    def _multiply(self, rows: bytes, sources: Sequence[Buffer], targets: Sequence[Buffer]) -> None:
        (length,) = {len(block) for block in (*sources, *targets)}
        tables = _ffi.new("unsigned char[]", _TABLE_BYTES * len(rows))
        coefficients = _ffi.from_buffer("unsigned char[]", rows)
        _isal.ec_init_tables(self._data, len(targets), coefficients, tables)
        read, written = ([_ffi.from_buffer("unsigned char[]", block) for block in side] for side in (sources, targets))
        pointers = (_ffi.new("unsigned char *[]", side) for side in (read, written))
        _isal.ec_encode_data(length, self._data, len(targets), tables, *pointers)


@functools.cache
def reed_solomon(data: int, parity: int) -> ReedSolomon:
    """Return the code for these numbers of blocks. All callers share one object."""
    return ReedSolomon(data, parity)
