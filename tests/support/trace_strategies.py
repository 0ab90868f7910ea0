"""Strategies of traces for property tests, with gaps at and next to the boundaries of both policies and the optimum."""

from __future__ import annotations

from itertools import accumulate

from hypothesis import strategies as st

_SECOND = 1_000_000
_BOUNDARIES_S = (0, 1, 2, 4, 5, 6, 10, 15, 20, 30, 40, 50, 55, 60, 65, 90, 120, 600, 700)
_OFFSETS_US = (0, 0, 0, -1, 1, 20_000, 600_000)


def gaps_us() -> st.SearchStrategy[int]:
    """Return gaps between requests [us]: within bursts, of silence, and at or near a boundary."""
    at_boundary = st.builds(
        lambda gap_s, offset_us: max(0, gap_s * _SECOND + offset_us),
        st.sampled_from(_BOUNDARIES_S),
        st.sampled_from(_OFFSETS_US),
    )
    return st.one_of(at_boundary, st.integers(0, 3 * _SECOND), st.integers(0, 80 * _SECOND))


def traces_us(*, most: int) -> st.SearchStrategy[list[int]]:
    """Return sorted arrivals of 1 to `most` requests [us]."""
    return st.lists(gaps_us(), min_size=1, max_size=most).map(lambda gaps: list(accumulate(gaps)))
