"""The clock of simulated answers: a first byte, then bytes, by one rule for this system and every competitor."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from burstcache.core.prices import price_sheet
from burstcache_sim.bill.comparison import Billing, compare
from burstcache_sim.bill.latency_model import LatencyModel
from burstcache_sim.bill.response_sizes import ResponseBytes, response_sizes
from burstcache_sim.bill.setup import Setup
from burstcache_sim.latency import TierLatencies
from burstcache_sim.policies.thesis import Thesis
from burstcache_sim.traces.trace import Trace
from burstcache_sim.world.result import RunResult
from support.searches import search

KIB, MIB, GIB = 1024, 1024**2, 1024**3
RIVALS = (
    *("reader-memory:64MB", "reader-memory-confirmed:64MB", "reader-memory+s3-express", "ec2:r7g.large", "s3-express"),
    *("s3-express-all", "elasticache-redis:r7g.large", "serverless-valkey", "fargate:2GB", "efs", "cloudfront"),
)
SIZES = st.lists(st.integers(0, 5 * GIB), min_size=1, max_size=40)
SPREAD = 0.0


def trace_of(sizes_bytes: list[int]) -> Trace:
    count = len(sizes_bytes)
    keys = tuple(map(str, range(count)))
    return Trace(np.arange(count) * 1_000_000, np.arange(count, dtype=np.int32), np.array(sizes_bytes), keys)


def clock_of(*sizes_bytes: int, front_door: str | None = None) -> LatencyModel:
    tiers = TierLatencies(spread=SPREAD)
    return LatencyModel(tiers).for_log(trace_of(list(sizes_bytes)), object_bytes=1, front_door=front_door)


def run_of(n: int, *, n_s3: int = 0, n_memory: int = 0, n_redis: int = 0) -> RunResult:
    return RunResult(
        n=n, n_s3=n_s3, n_lambda=n - n_s3 - n_memory - n_redis, n_redis=n_redis, n_memory=n_memory, lambda_ms=0,
        invocations=0, cold_starts=0, redis_s=0, redis_starts=0, s3_requests=n_s3, lambda_us_exact=0,
        redis_us_exact=0, end_us=0,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("size_bytes", "measured_ms"),
    [(64 * KIB, 25.3), (256 * KIB, 26.7), (512 * KIB, 28.2), (MIB, 29.9), (2 * MIB, 32.9)],
)
def test_s3_takes_what_was_measured(size_bytes: int, measured_ms: float) -> None:
    assert clock_of(size_bytes).s3_ms == pytest.approx(measured_ms, rel=0.05)


def test_a_gigabyte_takes_its_bandwidth_and_not_a_first_byte() -> None:
    clock, run = clock_of(GIB), run_of(10, n_redis=10)

    assert clock.s3_ms == pytest.approx(GIB / 85e3, rel=0.01)
    assert clock.with_burstcache(run).mean_ms == pytest.approx(1 + GIB / 625e3)
    assert clock.with_burstcache(run_of(10, n_memory=10)).mean_ms == pytest.approx(0.01 + GIB / 5e6)
    assert clock.with_burstcache(run_of(10)).mean_ms == pytest.approx(1.5 + GIB / 78e3)


def test_a_hit_is_judged_by_its_first_byte() -> None:
    clock = replace(clock_of(GIB), hit_within_ms=2)

    assert clock.hits(run_of(5, n_redis=3)) == 5
    assert clock.is_hit("ec2:r7g.large")
    assert not clock.is_hit("s3-express")


def test_the_options_first_byte_overrules_s3s_and_leaves_its_bandwidth() -> None:
    slow = replace(clock_of(100 * MIB), tiers=TierLatencies(s3_ms=50))

    assert slow.s3_ms == pytest.approx(clock_of(100 * MIB).s3_ms + 25)


def test_what_burstcache_never_keeps_is_left_to_s3_whole() -> None:
    clock = clock_of(*[10_000] * 9, GIB, front_door="http-api")

    found = clock.with_burstcache(run_of(10, n_s3=1, n_redis=9))

    each_ms = [1 + 10_000 / 625e3] * 9 + [clock_of(GIB).s3_ms]
    assert found.mean_ms == pytest.approx(sum(each_ms) / 10, rel=1e-6)
    assert clock.saved_ms(run_of(10, n_s3=1, n_redis=9)) == pytest.approx(9 * (25 + 10_000 / 270e3 - each_ms[0]))


def test_a_small_cache_saves_no_time_of_objects_that_it_cannot_hold() -> None:
    trace = Trace(
        np.arange(100) * 1_000_000,
        np.array([0] * 99 + [1], np.int32),
        np.array([10_000] * 99 + [GIB]),
        ("small", "large"),
    )
    clock = LatencyModel(TierLatencies(spread=SPREAD)).for_log(trace, object_bytes=1)
    billing = Billing(price_sheet("today-us-east-1"), Setup())
    found = {one.name: one for one in compare(Thesis.configured(9, 4), trace, billing)}

    saved_ms = clock.s3_ms - clock.mean_ms(found["reader-memory:64MB"])

    assert saved_ms == pytest.approx(0.99 * 25, rel=0.02)  # not the gigabyte's 12 s


@search(200)
@given(SIZES, st.integers(0, 6 * GIB))
def test_parts_of_a_log_make_its_mean(sizes_bytes: list[int], largest_bytes: int) -> None:
    sizes = response_sizes(trace_of(sizes_bytes), object_bytes=1)
    share = sum(size <= largest_bytes for size in sizes_bytes) / len(sizes_bytes)
    kept, whole = sizes.up_to(largest_bytes), sizes.up_to(None)

    rest = whole.remainder((share, kept))

    if share < 1:
        assert share * kept.mean + (1 - share) * rest.mean == pytest.approx(whole.mean, rel=1e-6, abs=1e-3)
        assert share * kept.fast + (1 - share) * rest.fast == pytest.approx(whole.fast, rel=1e-6, abs=1e-3)
    assert 0 <= kept.fast <= kept.mean


@search(100)
@given(SIZES)
def test_larger_answers_take_no_less_time_from_anybody(sizes_bytes: list[int]) -> None:
    small, large = clock_of(*sizes_bytes), clock_of(*(2 * size + 1 for size in sizes_bytes))
    run = run_of(len(sizes_bytes), n_s3=1)

    assert small.s3_ms <= large.s3_ms
    assert small.with_burstcache(run).mean_ms <= large.with_burstcache(run).mean_ms
    assert small.first_bytes.s3_ms == large.first_bytes.s3_ms == 25


def test_everything_is_taken_away_from_nothing() -> None:
    assert ResponseBytes(5, 5).remainder((1.0, ResponseBytes(5, 5))) == ResponseBytes(5, 5)
    assert response_sizes(trace_of([7]), object_bytes=1).up_to(3) == ResponseBytes()
