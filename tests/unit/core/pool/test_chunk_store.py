"""A member's memory: its bytes are bounded, and what is wanted stays."""

from __future__ import annotations

from burstcache.core.pool.chunk_store import ENTRY_BYTES, Chunk, ChunkStore

_SIZE = 1_000
_ENTRY = _SIZE + ENTRY_BYTES


def _put(store: ChunkStore, *names: bytes) -> None:
    for name in names:
        store.put(name, Chunk(0, 0, bytes(_SIZE)))


def _kept(store: ChunkStore, names: bytes) -> bytes:
    return bytes(name for name in names if store.get(bytes([name])))


def test_a_chunk_is_returned_as_it_was_put() -> None:
    store = ChunkStore(_ENTRY)
    store.put(b"name", Chunk(7, 99, b"payload"))

    chunk = store.get(b"name")

    assert chunk
    assert (chunk.number, chunk.crc32c, chunk.payload) == (7, 99, b"payload")


def test_what_was_put_first_is_dropped_first() -> None:
    store = ChunkStore(3 * _ENTRY)

    _put(store, b"a", b"b", b"c", b"d")

    assert store.put(b"e", Chunk(0, 0, bytes(_SIZE))) == [b"b"]
    assert _kept(store, b"abcde") == b"cde"
    assert store.stored_bytes == 3 * _ENTRY


def test_what_was_wanted_stays_for_another_round() -> None:
    store = ChunkStore(3 * _ENTRY)
    _put(store, b"a", b"b", b"c")
    store.get(b"a")

    _put(store, b"d", b"e")

    assert _kept(store, b"abcde") == b"ade"


def test_when_all_are_wanted_the_oldest_goes() -> None:
    store = ChunkStore(3 * _ENTRY)
    _put(store, b"a", b"b", b"c")
    _kept(store, b"abc")

    _put(store, b"d")

    assert _kept(store, b"abcd") == b"bcd"


def test_a_chunk_that_is_put_again_counts_once() -> None:
    store = ChunkStore(3 * _ENTRY)

    _put(store, b"a", b"a", b"a", b"a")

    assert (len(store), store.stored_bytes) == (1, _ENTRY)


def test_a_deleted_chunk_leaves_no_bytes() -> None:
    store = ChunkStore(_ENTRY)
    _put(store, b"a")

    store.delete(b"a")
    store.delete(b"a")

    assert (len(store), store.stored_bytes) == (0, 0)


def test_a_chunk_larger_than_the_memory_does_not_fit() -> None:
    store = ChunkStore(_ENTRY)

    assert (store.fits(_SIZE), store.fits(_SIZE + 1)) == (True, False)
