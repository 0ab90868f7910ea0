"""A frame's header: what was packed is parsed, and nothing else is."""

from __future__ import annotations

import pytest

from burstcache.core.errors import FrameError
from burstcache.core.pool.slices import MAX_NAME_BYTES
from burstcache.pool.frames import HEADER_BYTES, MAX_PAYLOAD_BYTES, Header, Kind, parse


@pytest.mark.parametrize("kind", Kind)
def test_a_header_is_parsed_as_it_was_packed(kind: Kind) -> None:
    header = Header(kind, 0xFFFFFFFE, 255, MAX_NAME_BYTES, MAX_PAYLOAD_BYTES, 0xDEADBEEF)

    packed = header.pack()

    assert len(packed) == HEADER_BYTES
    assert parse(packed) == header


@pytest.mark.parametrize(
    ("place", "value", "reason"),
    [
        (0, b"GE", "begins with 0x4745"),
        (2, b"\xff", "of kind 255"),
        (8, b"\xff\xff", "name of 65,535 bytes; at most 255"),
        (12, b"\xff\xff\xff\xff", "payload of 4,294,967,295 bytes; at most 8,388,608"),
    ],
)
def test_a_wrong_header_is_refused_by_what_is_wrong(place: int, value: bytes, reason: str) -> None:
    packed = bytearray(Header(Kind.PUT, 1).pack())
    packed[place : place + len(value)] = value

    with pytest.raises(FrameError, match=reason):
        parse(packed)


def test_who_is_not_trusted_may_send_less() -> None:
    with pytest.raises(FrameError, match="payload of 65 bytes; at most 64"):
        parse(Header(Kind.PROOF, 0, payload_bytes=65).pack(), max_payload_bytes=64)
