"""Heads of a gateway's hits: assembled once per entry, they equal the head of each response of the cache."""

from __future__ import annotations

import pytest

from burstcache.adapters.clock import Instant
from burstcache.gateway.responses import entry_head, hit_head
from burstcache.gateway.s3_requests import ObjectRead
from burstcache.serve.memory_tier import CachedEntry, Ticket
from burstcache.web.entry import Entry
from burstcache.web.request import Request
from burstcache.web.response import hit_response

_NOON_US = 784_123_200_000_000  # Sun, 06 Nov 1994 12:00:00 GMT
_META = {
    "etag": '"1"',
    "content-length": "2",
    "content-type": "text/plain",
    "last-modified": "Sun, 06 Nov 1994 08:49:37 GMT",
    "x-amz-meta-name": "value",
    "x-amz-checksum-crc32": "AAAAAA==",
    "x-amz-checksum-type": "FULL_OBJECT",
}


def read_at(at_us: int, request_id: str) -> Request:
    return Request("GET", "key", "0" * 32, {}, None, request_id, at_us)


@pytest.mark.parametrize("wants_checksum", [False, True])
@pytest.mark.parametrize("origins", [{}, {"date": "Sun, 06 Nov 1994 11:59:30 GMT"}, {"age": "5"}])
def test_head_of_an_entry_is_that_of_the_response(wants_checksum: bool, origins: dict[str, str]) -> None:
    entry = Entry(_META | origins, b"ok")
    cached = CachedEntry("0" * 32, entry, Ticket(0, Instant(0.0, 0)))
    read = ObjectRead({}, None, wants_checksum, {}, is_plain=True)
    for number in range(3):  # the first one assembles it
        request = read_at(_NOON_US + number * 1_000_000, f"{number}")
        response = hit_response(request, entry.meta, entry.body, "memory", bound_ms=number)

        head = entry_head(request, read, cached, number)

        assert lines_of(head) == lines_of(hit_head(request, read, response))


def test_variants_of_an_entry_are_kept_apart() -> None:
    cached = CachedEntry("0" * 32, Entry(_META, b"ok"), Ticket(0, Instant(0.0, 0)))

    def has_checksum(wants: bool) -> bool:
        read = ObjectRead({}, None, wants, {}, is_plain=True)
        return b"x-amz-checksum-crc32" in entry_head(read_at(_NOON_US, "1"), read, cached, 0)

    assert [has_checksum(wants) for wants in (True, False, True, False)] == [True, False, True, False]


def lines_of(head: bytes) -> list[bytes]:
    """Return the lines of a head in order, without Date, which may change between two heads."""
    return sorted(line for line in head.split(b"\r\n") if not line.startswith(b"date:"))
