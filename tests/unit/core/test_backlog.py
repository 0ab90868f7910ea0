"""A batch of S3's events says how long others wait, if it can know that."""

from __future__ import annotations

import pytest

from burstcache.core.backlog import KEPT_S, LATE_S, MANY, Backlog, Batch

_BEGUN_US = 1_000_000_000
_LATE_US, _MS = round(1e6 * LATE_S), 1_000


@pytest.mark.parametrize(
    ("events", "waited_us", "took_us", "since_us"),
    [
        (MANY, _LATE_US + _MS, 0, _BEGUN_US - _LATE_US - _MS),
        (MANY, _LATE_US, 0, 0),
        (MANY - 1, _LATE_US + _MS, 0, None),
        (1, 0, _LATE_US, _BEGUN_US),
        (1, _LATE_US + _MS, _LATE_US, _BEGUN_US - _LATE_US - _MS),
        (MANY, _LATE_US + _MS, _LATE_US, _BEGUN_US - _LATE_US - _MS),
        (1, 0, _LATE_US - _MS, 0),
    ],
    ids=["many, late", "in time", "few, late", "slow", "few, late, slow", "many, late, slow", "nearly slow"],
)
def test_a_batch_says_since_when_events_wait(events: int, waited_us: int, took_us: int, since_us: int | None) -> None:
    now_us = _BEGUN_US + took_us

    backlog = Batch(events, _BEGUN_US - waited_us, _BEGUN_US).backlog(now_us)

    assert backlog == (None if since_us is None else Backlog(since_us, now_us))


def test_a_backlog_that_nobody_confirms_is_over() -> None:
    backlog = Backlog(_BEGUN_US, _BEGUN_US)

    assert [backlog.age_s(_BEGUN_US + after_s * 1_000_000) for after_s in (0, KEPT_S, KEPT_S + 1)] == [0, KEPT_S, 0]
