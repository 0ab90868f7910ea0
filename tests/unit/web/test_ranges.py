"""Range: what is a range, what is ignored, what is refused, and which bytes it means."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from burstcache.core.errors import RefusedRequestError
from burstcache.web.ranges import ByteRange, parse_range

_POSITIONS = st.integers(0, 10_000)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("bytes=0-0", ByteRange(0, 0)),
        ("bytes=5-", ByteRange(5, None)),
        ("bytes=-7", ByteRange(None, 7)),
        ("BYTES=1-2", ByteRange(1, 2)),
        ("bytes= 1-2 ", ByteRange(1, 2)),
        ("bytes=0-" + "9" * 30, ByteRange(0, 2**63 - 1)),
        ("bytes=0-" + "9" * 5000, ByteRange(0, 2**63 - 1)),
        ("bytes=0-1,4-5", None),
        ("items=0-1", None),
    ],
)
def test_range_is_read_or_ignored_as_s3_does(text: str, expected: ByteRange | None) -> None:
    assert parse_range(text) == expected


@pytest.mark.parametrize(
    "text",
    ["bytes", "bytes=", "bytes=-", "bytes=a-b", "bytes=2-1", "bytes 0-1", "bytes=0-1,", "bytes=٣-٤", "=0-1", "0-1"],
)
def test_malformed_range_is_refused_with_what_is_accepted(text: str) -> None:
    with pytest.raises(RefusedRequestError, match="accepted: bytes=first-last") as refusal:
        parse_range(text)

    assert refusal.value.status == 400


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

    if is_range:
        assert parse_range(str(range_)) == range_
    else:
        with pytest.raises(RefusedRequestError):
            parse_range(str(range_))


@settings(deadline=None)
@given(st.text(max_size=40))
def test_any_text_is_a_range_or_ignored_or_refused(text: str) -> None:
    try:
        parse_range("bytes=" + text)
    except RefusedRequestError as refusal:
        assert refusal.status == 400  # noqa: PT017 nothing else may come out
