"""The ISA-L library's results, against published ones."""

from __future__ import annotations

import pytest

from burstcache.pool.isa_l import crc32c


@pytest.mark.parametrize(
    ("data", "expected"),
    [(b"", 0), (b"123456789", 0xE3069283), (bytes(32), 0x8A9136AA), (b"\xff" * 32, 0x62A8AB43)],
)
def test_crc32c_has_the_values_of_rfc_3720(data: bytes, expected: int) -> None:
    assert crc32c(data) == expected


def test_crc32c_goes_on_where_it_stopped() -> None:
    data = bytes(range(256)) * 5

    assert crc32c(memoryview(data)[100:], crc32c(bytearray(data[:100]))) == crc32c(data)
