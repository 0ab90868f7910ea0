"""Bill from a stack's own counts, compared with the bill of the simulated work."""

from __future__ import annotations

from dataclasses import replace

import pytest

from burstcache_sim.bill.control import ControlCounts
from burstcache_sim.bill.counted import StackCounts, counted_usage
from burstcache_sim.bill.setup import Setup
from burstcache_sim.bill.usage import live_usage
from burstcache_sim.units import US_PER_H
from burstcache_sim.world.result import RunResult

# Three requests to S3, one to a cache function that was promoted, six to Redis, each in a second of its own.
RUN = RunResult(
    n=10, n_s3=3, n_lambda=1, n_redis=6, lambda_ms=5000, invocations=1, cold_starts=1, redis_s=120, redis_starts=1,
    s3_requests=5, lambda_us_exact=5_000_000, redis_us_exact=120_000_000, end_us=200_000_000, checks=2,
    redis_spans_us=((0, 120_000_000),),
)  # fmt: skip
COUNTED = StackCounts(
    reads={"s3": 3, "lambda": 1, "redis": 6},
    busy_s=10,
    messages=3,
    gathers=False,
    calls=9,  # the scheduler's 3, the cache function's, 3 of Redis control for the promotion and its 4 + 2 for the node
    origin_calls=0,
    steps=ControlCounts(lives=1, promotions=1, handovers=0, boots=1, node_s=137, checks=2),
)
SETUP = Setup(readers="internet")


@pytest.mark.parametrize("item", ["events_64kb", "dynamodb_writes", "dynamodb_reads", "transitions", "metric_h"])
def test_what_was_counted_is_billed_as_what_was_simulated(item: str) -> None:
    simulated = live_usage(RUN, SETUP, period_us=US_PER_H)
    counted = counted_usage(COUNTED, SETUP, US_PER_H)

    assert getattr(counted, item) == pytest.approx(float(getattr(simulated, item)), rel=0.05)


def test_a_call_of_the_origin_function_is_an_event_of_the_queue_unless_there_is_none() -> None:
    queued = counted_usage(replace(COUNTED, origin_calls=5), SETUP, US_PER_H)
    direct = counted_usage(replace(COUNTED, origin_calls=5), replace(SETUP, origin_events="direct"), US_PER_H)

    assert (queued.queue_requests, direct.queue_requests) == (15, 0)


def test_readers_that_gather_have_their_reads_learned() -> None:
    gathered = counted_usage(replace(COUNTED, gathers=True), SETUP, US_PER_H)
    without_functions = counted_usage(replace(COUNTED, gathers=True), replace(SETUP, relay="none"), US_PER_H)

    each = counted_usage(COUNTED, SETUP, US_PER_H)
    assert gathered.dynamodb_writes - each.dynamodb_writes == 3  # reads from S3
    assert gathered.dynamodb_reads - each.dynamodb_reads == 2 * 3 + 10 / 2 + 3
    assert without_functions.dynamodb_writes == each.dynamodb_writes
