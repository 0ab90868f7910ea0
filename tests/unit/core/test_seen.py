"""When a key was last asked for, against `docs/understand/simulation.md`, "The use of nodes and keys"."""

from __future__ import annotations

from burstcache.core.seen import SEEN_AGAIN_US, SEEN_WITHIN_US, is_repeat, notes_seen


def test_a_request_is_a_repeat_within_a_day_and_noted_once_an_hour() -> None:
    assert not is_repeat(None, 5)
    assert is_repeat(0, SEEN_WITHIN_US - 1)
    assert not is_repeat(0, SEEN_WITHIN_US)
    assert notes_seen(None, 5)
    assert not notes_seen(0, SEEN_AGAIN_US - 1)
    assert notes_seen(0, SEEN_AGAIN_US)
