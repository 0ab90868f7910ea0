"""Entries as bytes: what is stored comes back, and what is not sound is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from burstcache.adapters.clock import Instant
from burstcache.core.errors import InvalidSettingError
from burstcache.results import Codec
from burstcache.results.codecs import NotKeptError, codec_named, json_codec
from burstcache.results.compression import compression_named
from burstcache.results.entries import ResultEntry, pack, unpack
from burstcache.results.result_classes import ResultClasses

DEFAULT = json_codec(ResultClasses(lambda: None))
NOW = Instant(50.0, 9_000_000)
ENTRY = ResultEntry("value", "json", b'{"a": 1}' * 100, Instant(46.0, 5_000_000), 5, 7)


@given(st.binary())
def test_an_entry_comes_back_as_it_was(payload: bytes) -> None:
    entry = ENTRY._replace(payload=payload)

    assert unpack(pack(entry, None), now=NOW, most_bytes=len(payload)) == entry


@pytest.mark.parametrize("name", ["zlib", "zstd"])
def test_a_compressed_entry_is_smaller_and_names_how(name: str) -> None:
    data = pack(ENTRY, compression_named(name))

    assert f" {name} ".encode() in data
    assert len(data) < len(ENTRY.payload)
    assert unpack(data, now=NOW, most_bytes=800) == ENTRY


def test_what_compression_would_not_make_smaller_is_stored_as_it_is() -> None:
    data = pack(ENTRY._replace(payload=b"ab"), compression_named("zlib"))

    assert data == b"burstcache-result/2 value json plain 2 - 5000 5 7\nab"


@pytest.mark.parametrize("name", ["zlib", "zstd"])
@pytest.mark.parametrize("said_bytes", [1, 801])
def test_an_entry_is_expanded_to_no_other_size_than_it_says(name: str, said_bytes: int) -> None:
    data = pack(ENTRY, compression_named(name)).replace(b" 800 ", f" {said_bytes} ".encode())

    with pytest.raises(ValueError, match="stated size|bytes of"):
        unpack(data, now=NOW, most_bytes=1000)


@pytest.mark.parametrize(
    "data",
    [
        pack(ENTRY, None)[:-1],
        pack(ENTRY, compression_named("zlib"))[:-1],
        pack(ENTRY, None).replace(b"/2", b"/1", 1),
        pack(ENTRY._replace(payload=bytes(1001)), None),
        b"",
    ],
)
def test_what_is_cut_off_too_large_or_of_another_format_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  (any sentence: its reader computes anew)
        unpack(data, now=NOW, most_bytes=1000)


def test_an_entry_with_an_unknown_compression_is_refused() -> None:
    with pytest.raises(InvalidSettingError, match="compression='snow'; accepted: zlib, zstd"):
        unpack(pack(ENTRY, None).replace(b"plain", b"snow"), now=NOW, most_bytes=1000)


@pytest.mark.parametrize(("made_at_ms", "age_s"), [(5_000, 4), (9_000, 0), (9_500, 0), (69_000, 0)])
def test_an_entry_ages_from_when_it_was_made_and_none_is_younger_than_new(made_at_ms: int, age_s: int) -> None:
    stored = pack(ENTRY._replace(made=Instant(0, made_at_ms * 1000)), None)

    assert unpack(stored, now=NOW, most_bytes=800).made == Instant(50 - age_s, (9 - age_s) * 1_000_000)


def test_an_entry_of_the_future_is_refused_as_one_of_two_clocks_is_wrong() -> None:
    stored = pack(ENTRY._replace(made=Instant(0, 3600_000_000)), None)

    with pytest.raises(ValueError, match="made 3591 s in the future"):
        unpack(stored, now=NOW, most_bytes=800)


def test_bytes_takes_bytes_alone() -> None:
    codec = codec_named("bytes", DEFAULT)

    assert codec.decode(codec.encode(b"a")) == b"a"
    with pytest.raises(NotKeptError, match="type str, not bytes"):
        codec.encode("a")


@pytest.mark.parametrize("name", ["json", "two words", "", "läuft"])
def test_a_codec_of_ones_own_has_a_name_of_its_own(name: str) -> None:
    with pytest.raises(InvalidSettingError, match="codec name"):
        codec_named(Codec(name, bytes, bytes), DEFAULT)
