"""Freshness of answers: the permitted age by the request's `Cache-Control`."""

from __future__ import annotations

import pytest

from burstcache.web.freshness import max_age_s


@pytest.mark.parametrize(
    ("text", "limit_s"),
    [
        ("", None),
        ("no-cache", 0),
        ("No-Store", 0),
        ("max-age=30", 30),
        ('max-age="30"', 30),
        ("max-age=30, no-transform, max-age=7", 7),
        ("max-age=0007", 7),
        ("max-age=60,no-cache", 0),
        ("only-if-cached, max-stale=5, stale-if-error", None),
        ("max-age, max-age=, max-age=x, max-age=-1, , =", None),
        pytest.param("max-age=" + "9" * 5_000, None, id="more digits than Python converts"),
    ],
)
def test_the_strictest_directive_that_is_understood_counts(text: str, limit_s: int | None) -> None:
    assert max_age_s({"cache-control": text} if text else {}) == limit_s
