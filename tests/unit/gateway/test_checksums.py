"""Checksums of whole objects: a body that contradicts one of S3's is told apart."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from burstcache.gateway.checksums import available_checksums, is_intact

_BODY = b"123456789"
# The check values of the catalogue of CRCs, and the digests of OpenSSL.
_EXPECTED = {
    "crc32": "y/Q5Jg==",
    "crc32c": "4waSgw==",
    "crc64nvme": "rosUhgp5mIg=",
    "sha1": "98O8HYCOBHMq32eZZczDTKeuNEE=",
    "sha256": "FeKw08M4keuw8e9gnsQZQgwg4yDOlMZfvIwzEkSOsiU=",
}


def _reflected_crc(body: bytes, polynomial: int, all_bits: int) -> int:
    """Return a CRC bit by bit, as its definition has it."""
    crc = all_bits
    for byte in body:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (polynomial if crc & 1 else 0)
    return crc ^ all_bits


class _Runtime(ModuleType):
    """AWS's Common Runtime, as far as checksums go."""

    def __init__(self) -> None:
        super().__init__("awscrt")
        self.checksums = SimpleNamespace(
            crc32c=lambda body: _reflected_crc(body, 0x82F63B78, 0xFFFFFFFF),
            crc64nvme=lambda body: _reflected_crc(body, 0x9A6C9329AC4BC9B5, 0xFFFFFFFFFFFFFFFF),
        )


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch) -> _Runtime:
    monkeypatch.setitem(sys.modules, "awscrt", runtime := _Runtime())
    return runtime


@pytest.mark.parametrize("name", _EXPECTED)
def test_a_body_with_a_wrong_checksum_is_not_intact(name: str, runtime: _Runtime) -> None:
    headers = {"content-length": "9", f"x-amz-checksum-{name}": _EXPECTED[name]}

    assert is_intact(headers, _BODY, available_checksums())
    assert not is_intact(headers, _BODY[:-1] + b"8", available_checksums())


@pytest.mark.parametrize("name", ["crc32c", "crc64nvme"])
def test_a_checksum_that_takes_long_here_is_not_compared(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "awscrt", None)  # it is not installed

    assert is_intact({f"x-amz-checksum-{name}": "AAAA"}, _BODY, available_checksums())


def test_a_runtime_from_before_crc64nvme_is_used_for_the_other(runtime: _Runtime) -> None:
    del runtime.checksums.crc64nvme

    assert {"crc32c", "crc64nvme"} & set(available_checksums()) == {"crc32c"}


@pytest.mark.parametrize("value", ["", "y/Q5Jw==-2"])
def test_a_composite_checksum_is_not_of_the_body(value: str) -> None:
    assert is_intact({"x-amz-checksum-crc32": value}, _BODY)


@given(body=st.binary(max_size=100))
def test_an_object_without_checksums_is_intact(body: bytes) -> None:
    assert is_intact({"etag": '"a"', "x-amz-checksum-type": "FULL_OBJECT"}, body)
