"""Entries: what a cached object is on its way."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from burstcache.web.entry import Entry, decode, decode_meta, encode, encode_meta, entry_from_s3
from burstcache.web.headers import object_headers
from burstcache.web.ranges import parse_range
from burstcache.web.request import Request
from burstcache.web.response import object_response
from support.searches import search

_DATE = "Wed, 21 Oct 2015 07:28:00 GMT"
_GOOD = {"etag": '"e"', "content-length": "4"}
_SENT = re.compile(r"[\x20-\x7e\t]*")
# Names and values that an entry may have, and others like them.
_ALLOWED = ["etag", "content-length", "last-modified", "date", "content-type", "cache-control", "expires"]
_OTHERS = ["ETag", "Content-Length", "set-cookie", "location", "x-cache-tier", "transfer-encoding", "age", "", "é"]
_METADATA = ["x-amz-meta-a", "X-Amz-Meta-A", "x-amz-meta-", "x-amz-meta-a b", "x-amz-meta-ü", "x-amz-meta-a\r\n"]
_NAMES = st.sampled_from([*_ALLOWED, *_OTHERS, *_METADATA])
_LENGTHS = st.sampled_from(["4", "04", "²", "٤", "-4", "+4", " 4", "4\n", "1" * 20, "9" * 5_000, ""])
_DATES = st.sampled_from([_DATE, "Wed, 21 Oct 9999 07:28:00 GMT", "Sun, 31 Feb 2016 07:28:00 GMT", "zzz"])
_TEXTS = st.sampled_from(['"e"', 'W/"e"', "e", '"e"\r\nX-Evil: 1', "\x00", "\x7f", "é", "\ud800"]) | _LENGTHS | _DATES
_VALUES = _TEXTS | st.sampled_from([None, True, 4, 10**30, float("nan"), [], ["e"], {"a": {"b": 1}}])


@settings(search(200), deadline=None)
@given(st.dictionaries(_NAMES, _VALUES, max_size=5), st.booleans())
def test_stored_headers_are_those_of_an_object_and_can_be_sent_or_are_refused(
    found: dict[str, object], is_completed: bool
) -> None:
    stored = (_GOOD | found) if is_completed else found
    try:
        meta = decode_meta(json.dumps(stored).encode())
    except ValueError:
        return

    assert meta.keys() <= object_headers(dict.fromkeys(meta, "")).keys() | {"date"}
    assert all(isinstance(value, str) and _SENT.fullmatch(value) for value in meta.values())
    assert re.fullmatch("[0-9]+", meta["content-length"])
    assert meta.items() <= stored.items()
    assert decode_meta(encode_meta(meta)) == meta
    for method, conditions, range_ in (
        ("GET", {"if-none-match": '"x"'}, "bytes=0-1"),
        ("HEAD", {"if-modified-since": _DATE}, ""),
        ("GET", {"if-range": '"e"'}, "bytes=-1"),
    ):
        request = Request(method, "key", "0" * 32, conditions, parse_range(range_), "1", 1_800_000_000_000_000)
        assert all(_SENT.fullmatch(value) for value in object_response(request, meta, b"x" * 4).headers.values())


@settings(search(100), deadline=None)
@given(st.binary(max_size=60) | st.binary(max_size=40).map(lambda data: b"\0\0\0\x02{}" + data))
def test_any_bytes_are_an_entry_or_refused(data: bytes) -> None:
    for decoded in (decode, decode_meta):
        with pytest.raises(ValueError):  # noqa: PT011 json's, ours and Unicode's
            decoded(data)


@pytest.mark.parametrize(
    "meta",
    [
        b"[]",
        b"{}",
        b'{"etag":"e"}',
        b'{"etag":"e","content-length":"x"}',
        b"{",
        b"\xff",
        b"[" * 30_000,
        b'{"etag":NaN,"content-length":"1"}',
        b'{"etag":"e","content-length":"1","content-type":"a","content-type":"b"}',
        b'{"etag":"e","content-length":"1","ETag":"f"}',
        b'{"etag":"e","content-length":"1","x":"' + b"x" * 40_000 + b'"}',
        b'{"etag":"e","content-length":"1","x":' + b"9" * 5_000 + b"}",
    ],
)
def test_meta_that_nobody_of_ours_has_written_is_refused(meta: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 json's, ours and Unicode's
        decode_meta(meta)


def test_headers_that_are_not_the_object_s_are_dropped() -> None:
    evil = {"set-cookie": "a=b", "location": "http://evil", "transfer-encoding": "chunked", "age": "9"}

    assert decode_meta(json.dumps(_GOOD | evil | {"x-amz-meta-a": "1"}).encode()) == _GOOD | {"x-amz-meta-a": "1"}


_HEADERS_OF_S3 = st.dictionaries(
    st.sampled_from(
        ["ETag", "Content-Type", "Last-Modified", "Date", "Expires", "x-amz-meta-a", "X-Amz-Meta-B", "Server"]
    )
    | st.from_regex(r"x-amz-meta-[!#$%&'*+.^_`|~0-9A-Za-z-]{0,9}", fullmatch=True),
    st.text(st.characters(max_codepoint=255), max_size=20) | st.just(_DATE),
)


@settings(search(100), deadline=None)
@given(body=st.binary(max_size=200), headers=_HEADERS_OF_S3)
def test_what_is_stored_of_s3_s_headers_survives(body: bytes, headers: dict[str, str]) -> None:
    stored = entry_from_s3({**headers, "ETag": '"e"'}, body)

    assert decode(encode(stored)) == stored


def test_entry_from_s3_knows_the_whole_size_without_its_body() -> None:
    entry = entry_from_s3({"ETag": '"e"', "Server": "S3"}, b"12345")

    assert (entry.without_body().size_bytes, entry.etag, entry.without_body().body) == (5, '"e"', b"")


def test_an_object_whose_bytes_are_not_all_there_is_no_entry() -> None:
    with pytest.raises(ValueError, match="0 bytes are not the whole object, which has 5"):
        entry_from_s3({"ETag": '"e"', "Content-Length": "5"}, b"")


def test_a_date_that_is_none_is_left_out() -> None:
    entry = entry_from_s3({"ETag": '"e"', "Last-Modified": "yesterday", "date": "today"}, b"")

    assert entry == Entry({"etag": '"e"', "content-length": "0"}, b"")
