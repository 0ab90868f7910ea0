"""Memory of large results: asking for large pages changes nothing that is in it."""

from __future__ import annotations

import io

import pytest

from burstcache.serve.buffers import in_large_pages


@pytest.mark.parametrize("size_bytes", [0, 1, 8 * 1024 * 1024, 20_000_001])
def test_memory_holds_what_it_held_whether_or_not_it_lies_in_large_pages(size_bytes: int) -> None:
    body = io.BytesIO(b"x" * size_bytes)
    with body.getbuffer() as memory:
        in_large_pages(memory[size_bytes // 3 :])
        in_large_pages(memory)

    assert body.getvalue() == b"x" * size_bytes  # and nothing holds on to the buffer
