"""Entries as bytes: what is stored comes back, and what is not sound is refused."""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict
from http import HTTPStatus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from burstcache.core.errors import InvalidSettingError
from burstcache.results import Codec
from burstcache.results.codecs import codec_named
from burstcache.results.compression import compression_named
from burstcache.results.entries import Entry, pack, unpack

ENTRY = Entry("value", "json", b'{"a": 1}' * 100, 5, 7)


@given(st.binary())
def test_an_entry_comes_back_as_it_was(payload: bytes) -> None:
    entry = ENTRY._replace(payload=payload)

    assert unpack(pack(entry, None), most_bytes=len(payload)) == entry


@pytest.mark.parametrize("name", ["zlib", "zstd"])
def test_a_compressed_entry_is_smaller_and_names_how(name: str) -> None:
    data = pack(ENTRY, compression_named(name))

    assert f" {name} ".encode() in data
    assert len(data) < len(ENTRY.payload)
    assert unpack(data, most_bytes=800) == ENTRY


def test_what_compression_would_not_make_smaller_is_stored_as_it_is() -> None:
    data = pack(ENTRY._replace(payload=b"ab"), compression_named("zlib"))

    assert data == b"burstcache-result/1 value json plain 2 5 7\nab"


@pytest.mark.parametrize("name", ["zlib", "zstd"])
@pytest.mark.parametrize("said_bytes", [1, 801])
def test_an_entry_is_expanded_to_no_other_size_than_it_says(name: str, said_bytes: int) -> None:
    data = pack(ENTRY, compression_named(name)).replace(b" 800 ", f" {said_bytes} ".encode())

    with pytest.raises(ValueError, match="says|bytes of"):
        unpack(data, most_bytes=1000)


@pytest.mark.parametrize(
    "data",
    [
        pack(ENTRY, None)[:-1],
        pack(ENTRY, compression_named("zlib"))[:-1],
        pack(ENTRY, None).replace(b"/1", b"/2", 1),
        pack(ENTRY._replace(payload=bytes(1001)), None),
        b"",
    ],
)
def test_what_is_cut_off_too_large_or_of_another_format_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  (any sentence: its reader computes anew)
        unpack(data, most_bytes=1000)


def test_an_entry_with_an_unknown_compression_is_refused() -> None:
    with pytest.raises(InvalidSettingError, match="compression='snow'; accepted: zlib, zstd"):
        unpack(pack(ENTRY, None).replace(b"plain", b"snow"), most_bytes=1000)


@pytest.mark.parametrize("value", [None, True, 1.5, "é", "\ud800", [1, {"a": None}], {}])
def test_json_gives_back_what_it_takes(value: object) -> None:
    codec = codec_named("json")

    assert codec.decode(codec.encode(value)) == value


class Name(str):
    """Equals the text that it is, and is another type."""


@pytest.mark.parametrize(
    "value",
    [
        (1, 2), {1: "a"}, [float("nan")], object(), b"bytes", {"a": {(1,)}}, Counter("a"), OrderedDict(a=1),
        defaultdict(list), HTTPStatus.OK, Name("a"), {Name("a"): 1}, {"a": [HTTPStatus.OK]},
    ],
)  # fmt: skip
def test_json_refuses_what_it_would_change(value: object) -> None:
    with pytest.raises((TypeError, ValueError)):
        codec_named("json").encode(value)


def test_bytes_takes_bytes_alone() -> None:
    codec = codec_named("bytes")

    assert codec.decode(codec.encode(b"a")) == b"a"
    with pytest.raises(TypeError, match="the result is str, not bytes"):
        codec.encode("a")


@pytest.mark.parametrize("name", ["json", "two words", "", "läuft"])
def test_a_codec_of_ones_own_has_a_name_of_its_own(name: str) -> None:
    with pytest.raises(InvalidSettingError, match="codec name"):
        codec_named(Codec(name, bytes, bytes))
