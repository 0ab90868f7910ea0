"""Why a replay met other tiers than predicted: each request that did has one cause, and each cause is counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from burstcache_replay.schedule import Outcome
from burstcache_replay.summary import is_failed

_RANKS = {"s3": 0, "express": 1, "lambda": 2, "redis": 3, "memory": 4}
_NAMES = {"s3": "S3", "express": "S3 Express", "lambda": "a cache function", "redis": "Redis", "memory": "memory"}
FAILED = "no answer"


def causes(predicted: Sequence[str], outcomes: Sequence[Outcome], keys: Sequence[str]) -> dict[str, int]:
    """Return how many requests were served elsewhere than predicted, by what was different.

    A faster tier than the one that served was missing; one that was not predicted was there. It came later or sooner
    than predicted, or went, as the requests for the same key before and behind show.

    Args:
        predicted: The tier of each request.
        outcomes: What came of each.
        keys: What each asked for.

    Returns:
        Numbers of requests by cause, the most frequent first.
    """
    found: Counter[str] = Counter()
    by_key: dict[str, list[int]] = {}
    for place, key in enumerate(keys):
        by_key.setdefault(key, []).append(place)
    for places in by_key.values():
        found.update(_causes([predicted[place] for place in places], [outcomes[place] for place in places]))
    return dict(found.most_common())


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
    # Within the time in which one of both has the tier, where has the other one it, too?
    if tier in other[place + 1 : last + 1]:
        how = "came later" if is_missing else "came sooner"
    elif tier in other[first:place]:
        how = "went sooner" if is_missing else "went later"
    else:
        how = "never came" if is_missing else "came unforeseen"
    return f"{_NAMES[tier]} {how}"


def _run(tiers: list[str], place: int) -> tuple[int, int]:
    """Return the first and the last place of the requests in a row that one tier serves."""
    first = last = place
    while first and tiers[first - 1] == tiers[place]:
        first -= 1
    while last + 1 < len(tiers) and tiers[last + 1] == tiers[place]:
        last += 1
    return first, last
