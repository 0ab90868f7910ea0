"""InfiniCache's formulas 1 to 3 give the paper's figures."""

from __future__ import annotations

import pytest

from burstcache.core.errors import InvalidSettingError
from burstcache.core.pool.availability import (
    Reclaims,
    chunks_lost,
    loss,
    loss_approximation,
    measured,
    poisson,
    slice_lost,
    zipf,
)

MEMBERS, CHUNKS, PARITY = 400, 12, 2


def test_one_chunk_too_many_is_the_usual_loss() -> None:
    three, four = (chunks_lost(i, members=MEMBERS, reclaimed=12, chunks=CHUNKS) for i in (3, 4))

    assert three / four == pytest.approx(18.8, abs=0.05)
    whole = slice_lost(members=MEMBERS, reclaimed=12, chunks=CHUNKS, parity=PARITY)
    assert whole / three == pytest.approx(1.05, abs=0.01)


@pytest.mark.parametrize(
    ("reclaims", "published_pct", "of_hour_pct"),
    [
        (poisson(2.28, MEMBERS), 0.0039, 99.76),
        (zipf(3.23, MEMBERS), 0.0039, 99.76),
        (poisson(7.21, MEMBERS), 0.11, 93.36),
        (zipf(2.27, MEMBERS), 0.11, 93.36),
    ],
)
def test_losses_of_a_minute_and_an_hour_are_those_of_the_paper(
    reclaims: Reclaims, published_pct: float, of_hour_pct: float
) -> None:
    lost = loss_approximation(reclaims, chunks=CHUNKS, parity=PARITY)

    assert 100 * lost == pytest.approx(published_pct, rel=0.01)
    assert 100 * (1 - lost) ** 60 == pytest.approx(of_hour_pct, abs=0.35)


def test_thirty_six_reclaims_an_hour_lose_fifty_times_less() -> None:
    low, least = (loss(poisson(mean, MEMBERS), chunks=CHUNKS, parity=PARITY) for mean in (2.28, 36 / 60))

    assert 45 < low / least < 60


def test_all_ways_to_lose_chunks_are_certain_together() -> None:
    chances = [chunks_lost(i, members=20, reclaimed=7, chunks=12) for i in range(13)]

    assert sum(chances) == pytest.approx(1)


def test_reclaims_of_several_minutes_add_up() -> None:
    five, at_once = poisson(0.4, MEMBERS).after(5), poisson(2.0, MEMBERS)

    assert five.mean == pytest.approx(2.0)
    assert five.probabilities == pytest.approx(at_once.probabilities, abs=1e-9)


def test_no_more_members_are_lost_than_there_are() -> None:
    assert max(poisson(3, 8).after(60).probabilities) == 8


def test_a_second_copy_saves_single_members_but_not_a_pool_that_is_emptied_at_once() -> None:
    single, everything = Reclaims(10, {1: 1.0}), Reclaims(10, {10: 1.0})

    assert single.of_both_copies().probabilities == pytest.approx({0: 0.9, 1: 0.1})
    assert everything.of_both_copies().probabilities == pytest.approx({10: 1.0})


def test_what_is_believed_fades_as_measurements_gather() -> None:
    prior = poisson(5, 100)

    means = [measured({0: intervals}, prior, 60).mean for intervals in (0, 60, 6_000)]

    assert means == pytest.approx([5, 2.5, 5 * 60 / 6_060], rel=1e-6)


def test_more_reclaims_than_members_are_refused() -> None:
    with pytest.raises(InvalidSettingError, match="17 reclaimed members; the pool has 16"):
        measured({17: 1}, poisson(1, 16), 60)
