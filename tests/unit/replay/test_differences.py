"""Each request that met another tier than predicted has one cause."""

from __future__ import annotations

import pytest

from burstcache_replay.differences import causes
from burstcache_replay.schedule import Answer, Outcome

_TIERS = {"S": "s3", "L": "lambda", "R": "redis", "M": "memory"}


def outcome(letter: str) -> Outcome:
    answer = Answer(0, error="TimeoutError") if letter == "-" else Answer(200, _TIERS[letter])
    return Outcome(0, 0.0, 0.01, answer)


def caused(predicted: str, met: str, keys: str = "") -> dict[str, int]:
    return causes([_TIERS[letter] for letter in predicted], [outcome(letter) for letter in met], keys or "k" * len(met))


@pytest.mark.parametrize(
    ("predicted", "met", "expected"),
    [
        ("SSRRR", "SSSRR", {"Redis came later": 1}),
        ("SSSRR", "SRRRR", {"Redis came sooner": 2}),
        ("LLRRS", "LLRRR", {"Redis went later": 1}),
        ("RRRSS", "RSSSS", {"Redis went sooner": 2}),
        ("SLLSS", "SSSSS", {"a cache function never came": 2}),
        ("SSSSS", "SSLSS", {"a cache function came unforeseen": 1}),
        ("SRRRR", "SRR-R", {"no answer": 1}),
        ("SLLRR", "SSLLR", {"a cache function came later": 1, "Redis came later": 1}),
        ("SSLL", "SSLL", {}),
    ],
)
def test_what_came_or_went_at_another_time_is_named(predicted: str, met: str, expected: dict[str, int]) -> None:
    assert caused(predicted, met) == expected


def test_keys_are_judged_by_themselves() -> None:
    assert caused("RSRS", "SSRR", keys="abab") == {"Redis came later": 1, "Redis came unforeseen": 1}
