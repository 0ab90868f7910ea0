"""The policy's tier changes: boundaries, counts, extensions, and checks that may be skipped."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import count, takewhile
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from burstcache.core.parameters import US_PER_S, Parameters
from burstcache.core.policy import (
    ANNOUNCE_WITHIN_US,
    CHECK_LATENESS_US,
    CHECKS_PER_PART,
    EVENT_LATENESS_US,
    LambdaLife,
    RecordedRequest,
    checks_after,
    cool_down_us,
    count_since,
    is_hot,
    is_idle,
    is_released,
    is_silent,
    lambda_bounded,
    lambda_ready,
    lambda_serves,
    may_start,
    newest_queue,
    next_check_us,
    plan_check,
    promote,
    remember,
    starts,
    unpromote,
    wants_promotion,
)

S = US_PER_S
PARAMETERS = Parameters(
    tick_us=5 * S, lambda_window_elements=2, lambda_threshold_us=10 * S, redis_threshold=4, redis_utilization_us=60 * S
)

requests = st.builds(RecordedRequest, st.integers(0, 40), st.sampled_from("abc"))


def window(*times_us: int) -> tuple[RecordedRequest, ...]:
    return tuple(RecordedRequest(at_us, f"id-{at_us}") for at_us in times_us)


# The window


def test_request_survives_its_text_even_with_colons_in_its_identity() -> None:
    request = RecordedRequest(1_700_000_000_000_001, "api:gateway:1")

    assert request.encode() == "1700000000000001:api:gateway:1"
    assert RecordedRequest.decode(request.encode()) == request


def test_window_keeps_the_newest_requests_oldest_first() -> None:
    assert remember(window(1, 2, 3), window(5, 4), 4) == window(2, 3, 4, 5)


def test_window_keeps_two_requests_of_the_same_instant() -> None:
    pair = (RecordedRequest(7, "a"), RecordedRequest(7, "b"))

    assert remember((), pair, 5) == pair


@pytest.mark.slow
@given(reports=st.lists(st.lists(requests, max_size=5), max_size=8), length=st.integers(1, 8), randomly=st.randoms())
def test_window_is_the_same_whatever_is_doubled_late_or_out_of_order(
    reports: list[list[RecordedRequest]], length: int, randomly: Random
) -> None:
    def after(batches: Sequence[Sequence[RecordedRequest]]) -> tuple[RecordedRequest, ...]:
        kept: tuple[RecordedRequest, ...] = ()
        for batch in batches:
            kept = remember(kept, batch, length)
        return kept

    disordered = [randomly.sample(batch, len(batch)) for batch in reports + randomly.choices(reports or [[]], k=3)]
    randomly.shuffle(disordered)

    assert after(disordered) == after(reports) == tuple(sorted({r for batch in reports for r in batch}))[-length:]


# S3 to Lambda


@pytest.mark.parametrize(("gap_us", "expected"), [(10 * S - 1, True), (10 * S, False), (10 * S + 1, False), (0, True)])
def test_key_is_hot_only_strictly_within_the_lambda_threshold(gap_us: int, expected: bool) -> None:
    assert is_hot([0, 100 * S, 100 * S + gap_us], PARAMETERS) is expected


def test_one_request_makes_no_key_hot() -> None:
    assert not is_hot([5], PARAMETERS)
    assert not is_hot([], PARAMETERS)


def test_key_needs_as_many_requests_as_the_window_has_elements() -> None:
    three = replace(PARAMETERS, lambda_window_elements=3)

    assert not is_hot([0, 1 * S], three)
    assert is_hot([0, 1 * S, 10 * S - 1], three)
    assert not is_hot([0, 9 * S, 10 * S], three)


def test_hot_key_starts() -> None:
    assert starts(window(0, 9 * S), now_us=9 * S, changed_at_us=-1, parameters=PARAMETERS)


def test_cold_or_unseen_key_does_not_start() -> None:
    assert not starts(window(0, 10 * S), now_us=10 * S, changed_at_us=-1, parameters=PARAMETERS)
    assert not starts((), now_us=0, changed_at_us=-1, parameters=PARAMETERS)


@pytest.mark.parametrize(("changed_at_us", "expected"), [(9 * S - 1, True), (9 * S, False), (9 * S + 1, False)])
def test_event_of_a_former_life_starts_nothing(changed_at_us: int, expected: bool) -> None:
    assert starts(window(0, 9 * S), now_us=9 * S, changed_at_us=changed_at_us, parameters=PARAMETERS) is expected


@pytest.mark.parametrize(("late_us", "expected"), [(0, True), (15 * S - 1, True), (15 * S, False)])
def test_burst_that_is_over_starts_nothing(late_us: int, expected: bool) -> None:
    assert EVENT_LATENESS_US == 5 * S

    assert starts(window(0, 9 * S), now_us=9 * S + late_us, changed_at_us=-1, parameters=PARAMETERS) is expected


# Lambda to Redis


def test_trigger_itself_does_not_count() -> None:
    trigger = RecordedRequest(5, "b")

    assert (
        count_since(
            trigger,
            [
                RecordedRequest(4, "z"),
                RecordedRequest(5, "a"),
                trigger,
                RecordedRequest(5, "c"),
                RecordedRequest(6, "a"),
            ],
        )
        == 2
    )


def test_fifth_request_after_the_trigger_promotes() -> None:
    life = lambda_ready(0, 0, PARAMETERS)

    wanted = []
    for _ in range(5):
        life = lambda_serves(life, PARAMETERS)
        wanted.append(wants_promotion(life, PARAMETERS))

    assert wanted == [False, False, False, False, True]


def test_requests_during_the_start_count_towards_promotion() -> None:
    assert not wants_promotion(lambda_ready(0, 4, PARAMETERS), PARAMETERS)
    assert wants_promotion(lambda_serves(lambda_ready(0, 4, PARAMETERS), PARAMETERS), PARAMETERS)
    assert wants_promotion(lambda_ready(0, 5, PARAMETERS), PARAMETERS)


def test_each_request_extends_the_life_by_one_tick_however_close_they_come() -> None:
    life = lambda_ready(100 * S, 0, PARAMETERS)
    assert life == LambdaLife(deadline_us=105 * S, count=0)

    for _ in range(3):
        life = lambda_serves(life, PARAMETERS)

    assert life == LambdaLife(deadline_us=120 * S, count=3)


def test_promotion_adds_the_time_of_redis_boot_once_and_ends_the_extension() -> None:
    promoted = promote(LambdaLife(deadline_us=30 * S, count=5), PARAMETERS)
    assert promoted == LambdaLife(deadline_us=150 * S, count=5, is_promoted=True)

    served = lambda_serves(promoted, PARAMETERS)

    assert served == LambdaLife(deadline_us=150 * S, count=6, is_promoted=True)
    assert not wants_promotion(served, PARAMETERS)


@pytest.mark.parametrize(("tick_s", "hours"), [(5, 1), (3600, 6)])
def test_a_life_whose_key_no_node_takes_ends_soon_after_its_newest_request(tick_s: int, hours: int) -> None:
    parameters = replace(PARAMETERS, tick_us=tick_s * S)
    life = lambda_ready(0, 0, parameters)
    for at_us in range(10_000):
        life = lambda_bounded(lambda_serves(life, parameters), newest_at_us=at_us, parameters=parameters)

    assert life == LambdaLife(deadline_us=at_us + hours * 3600 * S, count=10_000)


@given(tick_s=st.integers(1, 100_000), early=st.integers(0, 4), gaps_us=st.lists(st.integers(0, 10 * S), max_size=5))
def test_the_bound_of_a_life_leaves_what_comes_before_a_promotion_and_the_promotion_whole(
    tick_s: int, early: int, gaps_us: list[int]
) -> None:
    parameters = replace(PARAMETERS, tick_us=tick_s * S)
    life, now_us = lambda_ready(0, early, parameters), 0
    for gap_us in gaps_us:
        now_us += gap_us
        life = lambda_serves(life, parameters)
        assert lambda_bounded(life, newest_at_us=now_us, parameters=parameters) == life
        if wants_promotion(life, parameters):
            life = promote(life, parameters)
            assert lambda_bounded(life, newest_at_us=now_us, parameters=parameters) == life


# Redis to S3


def test_queue_is_the_last_five_times_oldest_first() -> None:
    assert newest_queue([9, 3, 7, 1, 5, 8]) == (3, 5, 7, 8, 9)
    assert newest_queue([2, 1]) == (1, 2)


@pytest.mark.parametrize(("age_us", "expected"), [(60 * S - 1, False), (60 * S, False), (60 * S + 1, True)])
def test_key_is_idle_only_strictly_beyond_the_redis_utilization(age_us: int, expected: bool) -> None:
    queue_us = (1000, 2000, 3000, 4000, 5000)

    assert is_idle(queue_us, check_at_us=1000 + age_us, parameters=PARAMETERS) is expected


@pytest.mark.parametrize(
    ("oldest_us", "after_us", "expected_us"),
    [
        (0, 0, 120 * S),  # at 60 s the oldest is 60 s old, which is still within
        (-1, 0, 60 * S),
        (1, 0, 120 * S),
        (60 * S, 0, 180 * S),
        (-500 * S, 0, 60 * S),  # long idle: the next check
        (-500 * S, 60 * S, 120 * S),  # never a check that was made already
        (0, -30 * S, 120 * S),
    ],
)
def test_next_check_is_the_first_whole_minute_after_the_oldest_request_has_run_out(
    oldest_us: int, after_us: int, expected_us: int
) -> None:
    found_us = next_check_us([(oldest_us, 3000 * S)], ready_at_us=0, after_us=after_us, parameters=PARAMETERS)

    assert found_us == expected_us


def test_next_check_counts_its_minutes_from_readiness() -> None:
    found_us = next_check_us([(7 * S,)], ready_at_us=7 * S, after_us=7 * S, parameters=PARAMETERS)

    assert found_us == 7 * S + 120 * S


def test_key_without_times_is_asked_at_the_very_next_check() -> None:
    queues_us = [(1000 * S,), ()]

    assert next_check_us(queues_us, ready_at_us=0, after_us=130 * S, parameters=PARAMETERS) == 180 * S


# Skipped checks against the minute ticker

small_parameters = st.builds(
    lambda utilization_us, check_us: replace(PARAMETERS, redis_utilization_us=utilization_us, redis_check_us=check_us),
    st.integers(1, 40),
    st.integers(1, 15),
)
# Gaps, not times, so that long quiet stretches and requests at the very instant of a check both come up.
key_times = st.lists(st.integers(0, 12), min_size=1, max_size=40).map(
    lambda gaps: tuple(sum(gaps[: i + 1]) for i in range(len(gaps)))
)


def queue_before(times_us: Sequence[int], check_at_us: int) -> tuple[int, ...]:
    """A check precedes a request of the same instant; the requests that seeded Redis are known from the start."""
    return newest_queue([t for t in times_us if t < check_at_us] or times_us[:1])


def checks(ready_at_us: int, parameters: Parameters) -> Iterator[int]:
    return count(ready_at_us + parameters.redis_check_us, parameters.redis_check_us)


def stop_by_ticker_us(times_us: Sequence[int], ready_at_us: int, parameters: Parameters) -> int:
    return next(
        check_us
        for check_us in checks(ready_at_us, parameters)
        if is_idle(queue_before(times_us, check_us), check_at_us=check_us, parameters=parameters)
    )


@given(times_us=key_times, ready_after_us=st.integers(0, 60), parameters=small_parameters)
def test_node_of_one_key_stops_at_the_instant_of_the_minute_ticker(
    times_us: list[int], ready_after_us: int, parameters: Parameters
) -> None:
    ready_at_us = times_us[0] + ready_after_us
    check_us = ready_at_us
    queue_us = queue_before(times_us, ready_at_us)

    while check_us == ready_at_us or not is_idle(queue_us, check_at_us=check_us, parameters=parameters):
        check_us = next_check_us([queue_us], ready_at_us=ready_at_us, after_us=check_us, parameters=parameters)
        queue_us = queue_before(times_us, check_us)

    assert check_us == stop_by_ticker_us(times_us, ready_at_us, parameters)


@given(keys=st.lists(key_times, min_size=1, max_size=5), ready_at_us=st.integers(0, 60), parameters=small_parameters)
def test_no_check_is_skipped_at_which_one_of_many_keys_would_have_been_idle(
    keys: list[list[int]], ready_at_us: int, parameters: Parameters
) -> None:
    in_use = dict(enumerate(keys))
    stops_us, made = {}, 0
    check_us = ready_at_us

    while in_use:
        queues_us = [queue_before(times_us, check_us) for times_us in in_use.values()]
        check_us = next_check_us(queues_us, ready_at_us=ready_at_us, after_us=check_us, parameters=parameters)
        made += 1
        for key, times_us in list(in_use.items()):
            if is_idle(queue_before(times_us, check_us), check_at_us=check_us, parameters=parameters):
                stops_us[key] = check_us
                del in_use[key]

    assert stops_us == {key: stop_by_ticker_us(times, ready_at_us, parameters) for key, times in enumerate(keys)}
    assert made <= sum(1 for _ in takewhile(lambda at_us: at_us <= check_us, checks(ready_at_us, parameters)))


def test_an_hour_of_steady_use_is_checked_once_per_utilization_and_not_each_minute() -> None:
    ten_minutes = replace(PARAMETERS, redis_utilization_us=600 * S)
    check_us, made = 0, 0

    while check_us < 3600 * S:
        queue_us = tuple(check_us - age_s * S for age_s in (4, 3, 2, 1, 0))
        check_us = next_check_us([queue_us], ready_at_us=0, after_us=check_us, parameters=ten_minutes)
        made += 1

    assert made == 6


# What else is decided


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, True),
        ({"not_before_us": 100 * S}, True),
        ({"not_before_us": 100 * S + 1}, False),
        ({"size_bytes": 10}, True),
        ({"size_bytes": 11}, False),
        ({"changed_at_us": 99 * S}, False),
    ],
)
def test_hot_key_may_start_unless_it_cools_down_is_too_large_or_is_cold(change: dict[str, int], expected: bool) -> None:
    facts = {"now_us": 100 * S, "changed_at_us": 0, "not_before_us": 0, "size_bytes": 1} | change

    assert may_start(window(98 * S, 99 * S), max_object_bytes=10, parameters=PARAMETERS, **facts) is expected


@pytest.mark.parametrize(("age_us", "expected"), [(ANNOUNCE_WITHIN_US - 1, False), (ANNOUNCE_WITHIN_US, True)])
def test_execution_counts_as_silent_from_the_end_of_its_time_on(age_us: int, expected: bool) -> None:
    assert is_silent(started_at_us=7, now_us=7 + age_us) is expected


@pytest.mark.parametrize(("failures", "expected_s"), [(0, 60), (1, 120), (5, 1920), (6, 3600), (7, 3600), (99, 3600)])
def test_cool_down_doubles_up_to_an_hour(failures: int, expected_s: int) -> None:
    assert cool_down_us(failures) == expected_s * S


def test_promotion_taken_back_leaves_no_trace() -> None:
    life = LambdaLife(deadline_us=7 * S, count=9)

    assert unpromote(promote(life, PARAMETERS), PARAMETERS) == life
    assert unpromote(life, PARAMETERS) == life


@pytest.mark.parametrize(
    ("queue_us", "was_missing", "expected"),
    [
        ((40 * S,), False, False),
        ((40 * S - 1,), False, True),
        ((), False, False),
        ((), True, True),
        ((40 * S,), True, False),
    ],
)
def test_key_is_released_when_it_is_idle_or_missing_twice(
    queue_us: tuple[int, ...], was_missing: bool, expected: bool
) -> None:
    released = is_released(queue_us, was_missing=was_missing, check_at_us=100 * S, parameters=PARAMETERS)

    assert released is expected


def test_check_runs_two_whole_seconds_after_its_instant_and_may_be_ten_minutes_late() -> None:
    check = plan_check(60_500_001, checks=0)

    assert check.check_at_us == 60_500_001
    assert check.wait_until_s == 63  # and 2 s, rounded up
    assert check.deadline_us == 63 * S + CHECK_LATENESS_US


@pytest.mark.parametrize(
    ("hours", "expected"), [(None, 8), (-1, 8), (0, 8), (3, 8), (4, 9), (10, 10), (10**6, 8 + CHECKS_PER_PART // 2)]
)
def test_checks_that_are_far_apart_count_as_several(hours: int | None, expected: int) -> None:
    at_us = 10**15

    assert checks_after(7, at_us, None if hours is None else at_us + hours * 3600 * S) == expected


@pytest.mark.parametrize(("checks", "expected"), [(CHECKS_PER_PART - 1, False), (CHECKS_PER_PART, True)])
def test_run_continues_in_a_successor_before_its_history_is_full(checks: int, expected: bool) -> None:
    check = plan_check(0, checks=checks)

    assert check.is_in_successor is expected
