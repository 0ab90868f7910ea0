"""Retention of state about the pool's members, and its round trip through a row of the table."""

from __future__ import annotations

import pytest

from burstcache.core.pool.retention import (
    MemberStatus,
    PoolChoice,
    PoolTotals,
    ReclaimHistory,
    decode_choice,
    decode_members,
    decode_reclaims,
    encode_choice,
    encode_members,
    encode_reclaims,
    tenants,
)
from burstcache.core.pool.slices import Redundancy

_MINUTE_US = 60_000_000


def _met(
    seen: MemberStatus, environment: str, chunks: int = 0, *, has_copies: bool = True
) -> tuple[MemberStatus, bool]:
    return seen.after_answer(environment, chunks=chunks, stored_bytes=chunks * 100, at_us=1, has_copies=has_copies)


def test_members_are_tenants_by_number() -> None:
    assert tenants(3) == ["pool-0", "pool-1", "pool-2"]


def test_first_answer_of_a_member_is_no_reclaim() -> None:
    assert _met(MemberStatus(), "a") == (MemberStatus("a", "", 1), False)


def test_other_environment_without_chunks_is_a_reclaim() -> None:
    seen, is_reclaimed = _met(MemberStatus("a", seen_at_us=0, chunks=3, stored_bytes=300), "b")

    assert is_reclaimed
    assert (seen.environment, seen.former, seen.stored_bytes) == ("b", "a", 0)


def test_other_environment_with_chunks_is_a_copy() -> None:
    assert not _met(MemberStatus("a"), "b", chunks=2)[1]


def test_third_environment_of_a_member_that_is_copied_has_taken_the_place_of_one() -> None:
    assert _met(MemberStatus("b", former="a"), "c", chunks=2)[1]


def test_where_nothing_is_copied_chunks_were_written_anew() -> None:
    assert _met(MemberStatus("a"), "b", chunks=2, has_copies=False)[1]


def test_environment_before_the_present_one_may_answer_again() -> None:
    seen, is_reclaimed = _met(MemberStatus("b", former="a"), "a")

    assert (seen.environment, seen.former, is_reclaimed) == ("a", "b", False)


def test_member_that_answers_is_silent_no_more() -> None:
    assert not _met(MemberStatus("a", is_silent=True), "a")[0].is_silent


def _history(*rounds: int, warm_s: int = 60) -> ReclaimHistory:
    history = ReclaimHistory()
    for minute, reclaimed in enumerate(rounds, 1):
        at_us = minute * warm_s * 1_000_000
        history = history.after(reclaimed, warm_s=warm_s, since_us=at_us - warm_s * 1_000_000, at_us=at_us)
    return history


def test_history_counts_intervals_by_how_many_were_reclaimed() -> None:
    history = _history(0, 2, 0, 1, 2)

    assert history.intervals == {60: {0: 2, 1: 1, 2: 2}}
    assert history.per_minute == 1
    assert [count for _, count in history.recent] == [2, 1, 2]


def test_late_round_has_watched_the_intervals_before_it() -> None:
    history = ReclaimHistory().after(3, warm_s=60, since_us=0, at_us=3 * _MINUTE_US)

    assert history.intervals == {60: {0: 2, 3: 1}}
    assert history.watched_minutes == 3


def test_intervals_of_another_length_stand_apart() -> None:
    history = _history(1).after(0, warm_s=540, since_us=0, at_us=540_000_000)

    assert history.intervals == {60: {1: 1}, 540: {0: 1}}
    assert history.watched_minutes == 10


def test_history_of_weeks_is_bounded_and_forgets_slowly() -> None:
    history = _history(*[0] * 9_000, *[1] * 3_000)

    assert sum(history.intervals[60].values()) <= 7 * 24 * 60
    assert history.intervals[60][1] > history.intervals[60][0] * 3_000 / 9_000
    assert len(encode_reclaims(history)) < 2_000


def test_a_mass_reclaim_seen_once_counts_half_after_each_halving_until_it_is_negligible() -> None:
    weights = [_history(9, *[0] * rounds).intervals[60].get(9, 0) for rounds in (10_000, 10_100, 15_200, 50_000)]

    assert weights == [1, 0.5, 0.25, 0]


def test_nothing_watched_means_no_reclaims() -> None:
    assert ReclaimHistory().per_minute == 0


def test_new_code_leaves_the_old_ones_readable_but_not_for_ever() -> None:
    choice = PoolChoice(Redundancy(4, 1))
    for data in (6, 8, 10, 12):
        choice = PoolChoice(Redundancy(data, 2)).after(choice)

    assert choice.redundancy == Redundancy(12, 2)
    assert choice.former == (Redundancy(10, 2), Redundancy(8, 2))


def test_same_code_again_keeps_the_former_ones() -> None:
    choice = PoolChoice(Redundancy(10, 2)).after(PoolChoice(Redundancy(10, 1)))

    assert PoolChoice(Redundancy(10, 2)).after(choice).former == (Redundancy(10, 1),)


@pytest.mark.parametrize("former", [(), (Redundancy(8, 1), Redundancy(8, 2))], ids=["first", "later"])
def test_choice_survives_its_column(former: tuple[Redundancy, ...]) -> None:
    choice = PoolChoice(Redundancy(10, 2), former, 540, 300, 0.995, ("because", "why not"), 7, 8, 9)

    assert decode_choice(encode_choice(choice)) == choice


def test_members_and_history_survive_their_columns() -> None:
    members = {"pool-1": MemberStatus("b", "a", 3, 4, 5, is_silent=True), "pool-2": MemberStatus()}

    assert decode_members(encode_members(members)) == members
    assert decode_reclaims(encode_reclaims(_history(0, 2))) == _history(0, 2)


def test_members_of_the_largest_pool_fit_into_one_item() -> None:
    members = {name: MemberStatus("0" * 16, "1" * 16, 1 << 51, 10_000, 10 << 30) for name in tenants(400)}

    assert len(encode_members(members)) < 50_000


def test_totals_start_at_nothing() -> None:
    assert PoolTotals() == PoolTotals(requests=0, warm_ups=0)
