"""Differences between predicted and measured tiers, each attributed to one cause."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from burstcache_replay.schedule import Outcome
from burstcache_replay.summary import is_failed

_RANKS = {"s3": 0, "express": 1, "lambda": 2, "redis": 3, "memory": 4}
_NAMES = {"s3": "S3", "express": "S3 Express", "lambda": "a cache function", "redis": "Redis", "memory": "memory"}
FAILED = "no answer"


def causes(predicted: Sequence[str], outcomes: Sequence[Outcome], keys: Sequence[str]) -> dict[str, int]:
    """Count the requests served by another tier than predicted, by cause.

    The tiers differ because a predicted faster tier was missing, or because an unpredicted faster tier was present.
    Other requests for the same key show whether the faster tier appeared or disappeared sooner or later than predicted.

    Args:
        predicted: The predicted tier of each request.
        outcomes: The outcome of each request.
        keys: The key of each request.

    Returns:
        Number of requests by cause, most frequent first.
    """
    counts: Counter[str] = Counter()
    by_key: dict[str, list[int]] = {}
    for place, key in enumerate(keys):
        by_key.setdefault(key, []).append(place)
    for places in by_key.values():
        counts.update(_causes([predicted[place] for place in places], [outcomes[place] for place in places]))
    return dict(counts.most_common())


def _causes(predicted: list[str], outcomes: list[Outcome]) -> list[str]:
    met = [FAILED if is_failed(outcome) else outcome.answer.tier for outcome in outcomes]
    return [_cause(place, predicted, met) for place in range(len(met)) if met[place] != predicted[place]]


def _cause(place: int, predicted: list[str], met: list[str]) -> str:
    if met[place] not in _RANKS:
        return FAILED
    is_missing = _RANKS[met[place]] < _RANKS[predicted[place]]
    wanted, other = (predicted, met) if is_missing else (met, predicted)
    tier = wanted[place]
    first, last = _run(wanted, place)
    # While `wanted` stays at the tier, look for the tier in `other`.
    if tier in other[place + 1 : last + 1]:
        how = "came later" if is_missing else "came sooner"
    elif tier in other[first:place]:
        how = "went sooner" if is_missing else "went later"
    else:
        how = "never came" if is_missing else "came unforeseen"
    return f"{_NAMES[tier]} {how}"


def _run(tiers: list[str], place: int) -> tuple[int, int]:
    """Return the first and last index of the run of requests around `place` that are served by the same tier."""
    first = last = place
    while first and tiers[first - 1] == tiers[place]:
        first -= 1
    while last + 1 < len(tiers) and tiers[last + 1] == tiers[place]:
        last += 1
    return first, last
