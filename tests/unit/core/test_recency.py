"""Recency of a key's requests, against `docs/understand/simulation.md`, "The use of nodes and keys"."""

from __future__ import annotations

from burstcache.core.recency import SEEN_AGAIN_US, SEEN_WITHIN_US, is_repeat, should_record


def test_a_request_is_a_repeat_within_a_day_and_noted_once_an_hour() -> None:
    assert not is_repeat(None, 5)
    assert is_repeat(0, SEEN_WITHIN_US - 1)
    assert not is_repeat(0, SEEN_WITHIN_US)
    assert should_record(None, 5)
    assert not should_record(0, SEEN_AGAIN_US - 1)
    assert should_record(0, SEEN_AGAIN_US)
