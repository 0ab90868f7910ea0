"""Entries: what a cached object is on its way."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from burstcache.web.entry import Entry, decode, decode_meta, encode, entry_from_s3


@settings(deadline=None)
@given(body=st.binary(max_size=200), value=st.text(max_size=20))
def test_entry_survives_the_relay(body: bytes, value: str) -> None:
    entry = Entry({"etag": '"e"', "content-length": str(len(body)), "x-amz-meta-a": value}, body)

    assert decode(encode(entry)) == entry


def test_entry_from_s3_knows_the_whole_size_without_its_body() -> None:
    entry = entry_from_s3({"ETag": '"e"', "Server": "S3"}, b"12345")

    assert (entry.without_body().size_bytes, entry.etag, entry.without_body().body) == (5, '"e"', b"")


def test_an_object_whose_bytes_are_not_all_there_is_no_entry() -> None:
    with pytest.raises(ValueError, match="0 bytes are not the whole object, which has 5"):
        entry_from_s3({"ETag": '"e"', "Content-Length": "5"}, b"")


@settings(deadline=None)
@given(st.binary(max_size=40))
def test_what_is_no_entry_is_a_value_error(data: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 json's, ours and Unicode's
        decode(data)


@pytest.mark.parametrize("meta", [b"[]", b"{}", b'{"etag":"e"}', b'{"etag":"e","content-length":"x"}', b"{", b"\xff"])
def test_meta_without_etag_or_size_is_a_value_error(meta: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 json's, ours and Unicode's
        decode_meta(meta)
