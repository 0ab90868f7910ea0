"""Headers: what belongs to the object, and what a value may hold."""

from __future__ import annotations

import base64

import pytest

from burstcache.web.headers import object_headers, sendable


def test_only_headers_of_the_object_are_kept() -> None:
    kept = object_headers({"ETag": '"e"', "x-amz-meta-A": "1", "x-amz-request-id": "r", "Server": "s", "Date": "d"})

    assert kept == {"etag": '"e"', "x-amz-meta-a": "1"}


@pytest.mark.parametrize("value", ["", "plain", 'attachment; filename="a b"', "=?UTF-8?B?w7w=?="])
def test_printable_ascii_is_sent_as_it_is(value: str) -> None:
    assert sendable(value) == value


@pytest.mark.parametrize(("raw", "charset"), [("ü€".encode(), "UTF-8"), (b"\xfc", "ISO-8859-1"), (b"a\r\nb", "UTF-8")])
def test_other_bytes_are_sent_as_s3_encodes_user_metadata(raw: bytes, charset: str) -> None:
    encoded = sendable(raw.decode("latin-1"))

    prefix, suffix = f"=?{charset}?B?", "?="
    assert encoded.startswith(prefix)
    assert base64.b64decode(encoded.removeprefix(prefix).removesuffix(suffix)) == raw
