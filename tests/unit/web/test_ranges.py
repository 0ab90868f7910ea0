"""Range: what is a range, what is ignored, and which bytes it means."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from burstcache.web.ranges import ByteRange, parse_range

_POSITIONS = st.integers(0, 10_000)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("bytes=0-0", ByteRange(0, 0)),
        ("bytes=5-", ByteRange(5, None)),
        ("bytes=-7", ByteRange(None, 7)),
        ("bytes=-0", ByteRange(None, 0)),
        ("bytes=00-01", ByteRange(0, 1)),
        ("BYTES=1-2", ByteRange(1, 2)),
        ("bytes=0-" + "9" * 30, ByteRange(0, 2**63 - 1)),
        ("bytes=0-" + "9" * 5000, ByteRange(0, 2**63 - 1)),
    ],
)
def test_range_is_read(text: str, expected: ByteRange) -> None:
    assert parse_range(text) == expected


@pytest.mark.parametrize("text", ["bytes=0-1,4-5", "bytes=0-1,", "bytes=,", "items=0-1"])
def test_several_ranges_and_other_units_are_ignored_as_by_s3(text: str) -> None:
    assert parse_range(text) is None


@pytest.mark.parametrize(
    "text",
    [
        *("", "bytes", "bytes=", "bytes=-", "bytes=a-b", "bytes=2-1", "bytes 0-1", "bytes= 0-1", "bytes=0 -1"),
        *("bytes=0--1", "bytes=-1-", "bytes=\u0663-\u0664", "=0-1", "0-1"),
    ],
)
def test_malformed_range_is_ignored_as_by_s3(text: str) -> None:
    assert parse_range(text) is None


@settings(deadline=None)
@given(data=st.binary(max_size=50), first=_POSITIONS, length=_POSITIONS)
def test_closed_range_means_the_bytes_that_a_slice_means(data: bytes, first: int, length: int) -> None:
    part = ByteRange(first, first + length).within(len(data))

    assert (data[slice(*part)] if part else b"") == data[first : first + length + 1]


@settings(deadline=None)
@given(data=st.binary(max_size=50), length=_POSITIONS)
def test_suffix_range_means_the_last_bytes(data: bytes, length: int) -> None:
    part = ByteRange(None, length).within(len(data))

    assert (data[slice(*part)] if part else b"") == (data[-length:] if length else b"")


@settings(deadline=None)
@given(first=st.none() | _POSITIONS, last=st.none() | _POSITIONS)
def test_what_a_range_writes_is_read_back(first: int | None, last: int | None) -> None:
    is_range = (first, last) != (None, None) and (first is None or last is None or first <= last)
    range_ = ByteRange(first, last)

    assert parse_range(str(range_)) == (range_ if is_range else None)


@settings(deadline=None)
@given(st.text(max_size=40))
def test_any_text_is_a_range_or_ignored(text: str) -> None:
    range_ = parse_range("bytes=" + text)

    assert range_ is None or parse_range(str(range_)) == range_


def test_the_last_bytes_of_an_empty_object_are_none_of_it() -> None:
    assert ByteRange(None, 5).within(0) == (0, 0)
    assert ByteRange(None, 0).within(0) is None
    assert ByteRange(0, None).within(0) is None
