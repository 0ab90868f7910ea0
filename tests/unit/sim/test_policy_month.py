"""A month under a policy that judges a node by its use: memory above it, copies below it, repetitions as they are."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from burstcache.core.prices import price_sheet
from burstcache_replay.reported import Reported
from burstcache_sim.bill.demand import demand_of
from burstcache_sim.bill.locality import locality_of
from burstcache_sim.bill.market import Market
from burstcache_sim.bill.nodes import node_capacity_bytes
from burstcache_sim.bill.policy_month import month_timings, policy_month
from burstcache_sim.bill.setup import LARGEST_OBJECT_BYTES, Setup
from burstcache_sim.bill.spending import policy_prices
from burstcache_sim.policies.node_use import Hazard
from burstcache_sim.policies.policy import Options
from burstcache_sim.traces.trace import Trace
from burstcache_sim.units import US_PER_H
from burstcache_sim.world.result import RunResult
from burstcache_sim.world.scenario import Scenario
from burstcache_sim.world.simulate import simulate
from support.trace_columns import quarter_of

TODAY = price_sheet("today-us-east-1")
NODE = Setup(relay="none", nodes=1, instance_type="t4g.nano")
RELAYED = replace(NODE, relay="direct")
COUNTED = (
    *("n", "n_s3", "n_lambda", "n_redis", "lambda_ms", "cold_starts", "redis_s", "redis_starts", "s3_requests"),
    *("checks", "guests"),
)
DAY_US = 24 * US_PER_H


def log(requests: int = 4_000, keys: int = 400) -> Trace:
    """An hour of requests at random for objects of 40 KB, once a day."""
    draw = np.random.default_rng(7)
    ids = draw.integers(0, keys, requests).astype(np.int32)
    times_us = np.sort(draw.integers(0, US_PER_H, requests))
    return Trace(times_us, ids, np.full(requests, 40_000), tuple(map(str, range(keys))))


def decides(setup: Setup, usd_per_hit: str = "1e-4") -> Hazard:
    options = Options(hit_value_usd=Fraction(usd_per_hit), has_relay=setup.relay != "none")
    return Hazard.from_options(options, policy_prices(TODAY, setup))


def month(trace: Trace, setup: Setup, *, repeats: Fraction | int = 30, usd_per_hit: str = "1e-4") -> RunResult:
    demand = demand_of(trace, object_bytes=1, period_us=DAY_US)
    locality = locality_of(trace, object_bytes=1, period_us=DAY_US)
    worth = Fraction(usd_per_hit)
    market = Market(demand=demand, locality=locality, prices=TODAY, setup=setup, repeats=Fraction(repeats))
    return policy_month(market, decides(setup, usd_per_hit), Fraction(worth) if setup.express else None)


@pytest.mark.parametrize("setup", [NODE, RELAYED, replace(RELAYED, nodes=3)], ids=["node", "relay", "three nodes"])
def test_once_without_memory_is_the_simulators_run(setup: Setup) -> None:
    capacity_bytes = node_capacity_bytes(setup.instance_type)

    found = month(log(), setup, repeats=1)
    simulated = simulate(decides(setup), Scenario(log(), setup.nodes, capacity_bytes, timings=month_timings(setup)))

    for name in COUNTED:
        assert getattr(found, name) == getattr(simulated, name), name
    assert found.redis_starts >= setup.nodes
    assert bool(found.invocations) == (setup.relay != "none")


def test_a_short_burst_has_no_more_hits_than_a_proxy_that_gathers_its_reports_gives_it() -> None:
    draw = np.random.default_rng(3)
    times_us = np.sort(draw.integers(0, 60_000_000, 1_200))  # a minute
    ids = draw.integers(0, 200, 1_200).astype(np.int32)
    trace = Trace(times_us, ids, np.full(1_200, 10_000), tuple(map(str, range(200))))

    found = month(trace, NODE, repeats=1)
    at_once, reported = (simulate(policy, Scenario(trace)) for policy in (decides(NODE), Reported(decides(NODE))))

    assert found.n_redis < 0.75 * at_once.n_redis
    assert 0.85 * reported.n_redis < found.n_redis <= reported.n_redis


def test_every_request_of_the_month_is_answered_once() -> None:
    found = month(log(), replace(NODE, express=True, reader_memory_bytes=4 * 1024**2))

    assert found.n == 4_000 * 30
    assert found.n_memory + found.n_redis + found.n_express + found.n_s3 == found.n
    assert min(found.n_memory, found.n_redis, found.n_express, found.n_s3) > 0


def test_a_month_of_a_longer_log_is_its_part_of_it() -> None:
    once, half = (month(log(), NODE, repeats=repeats) for repeats in (Fraction(1), Fraction(1, 2)))

    assert half.guests.loads == pytest.approx(once.guests.loads / 2, abs=1)
    assert half.guests.loads > 0
    for name in ("n", "n_s3", "n_redis", "redis_s", "s3_requests"):
        assert abs(2 * getattr(half, name) - getattr(once, name)) <= 2, name


def test_cache_functions_bridge_each_days_boot_and_take_nothing_else_from_the_node() -> None:
    without, relayed = (month(log(), setup) for setup in (NODE, RELAYED))

    assert relayed.n_lambda + relayed.n_redis + relayed.n_s3 == relayed.n == without.n
    assert relayed.redis_starts == without.redis_starts
    assert relayed.n_redis == without.n_redis
    assert relayed.n_s3 < without.n_s3


def test_a_node_meets_only_what_the_readers_memory_leaves() -> None:
    bare, under_memory = (
        month(log(), replace(NODE, reader_memory_bytes=memory_bytes)) for memory_bytes in (0, 64 * 1024**2)
    )

    assert bare.redis_starts == 30
    assert under_memory.n_memory > 0.99 * under_memory.n
    assert under_memory.redis_starts <= 1  # memory stays warm, so there is nothing to boot for from the second day on


@pytest.mark.parametrize("above", [200, 0], ids=["some are larger", "all are larger"])
def test_objects_above_the_largest_that_is_cached_are_read_from_s3(above: int) -> None:
    trace = log()
    assert trace.key_ids is not None
    assert trace.sizes_bytes is not None
    is_large = trace.key_ids >= above
    largest_bytes = LARGEST_OBJECT_BYTES["http-api"]
    sized = replace(trace, sizes_bytes=np.where(is_large, largest_bytes + 1, 40_000))

    found = month(sized, NODE)

    assert found.n_s3 >= 30 * int(is_large.sum())
    assert found.n_redis + found.n_s3 == found.n == 30 * len(trace)
    assert bool(found.n_redis) == bool(above)


def test_copies_answer_what_no_node_does() -> None:
    without, with_copies = (month(log(), replace(NODE, express=express)) for express in (False, True))

    assert with_copies.n_redis == pytest.approx(without.n_redis, rel=0.05)
    assert with_copies.express.asks == with_copies.n_express + with_copies.n_s3
    assert with_copies.n_s3 < without.n_s3


def test_a_sample_of_the_keys_boots_the_node_as_its_log_does() -> None:
    whole = log(requests=16_000, keys=1_600)
    sampled = quarter_of(whole)

    found, expected = month(sampled, NODE), month(whole, NODE)

    assert found.redis_starts == expected.redis_starts
    assert found.redis_s == pytest.approx(expected.redis_s, rel=0.1)
    assert found.n_redis == pytest.approx(expected.n_redis, rel=0.1)
    assert found.guests.loads == pytest.approx(expected.guests.loads, rel=0.1)
