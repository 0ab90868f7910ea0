"""Losses of always-on caches on Spot, held to caches that are emptied at random times."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from burstcache.core.parameters import US_PER_S
from burstcache.core.prices import price_sheet
from burstcache_sim.bill.cache_losses import CacheLosses, losses_of
from burstcache_sim.bill.competitors import quotes
from burstcache_sim.bill.demand import demand_of
from burstcache_sim.bill.locality import Locality, locality_of
from burstcache_sim.bill.market import Market
from burstcache_sim.bill.setup import Setup
from burstcache_sim.bill.static_tiers import static_month
from burstcache_sim.traces.trace import Trace
from burstcache_sim.units import US_PER_H
from burstcache_sim.world.interruptions import Interruptions

OBJECT_BYTES = 1_000
DAY_US = 24 * US_PER_H
TODAY = price_sheet("today-us-east-1")


def day(requests: int = 4_000, keys: int = 120, seed: int = 3) -> Trace:
    """Return a day of requests for objects of equal size, some of them popular."""
    random = np.random.default_rng(seed)
    ids = np.minimum(random.zipf(1.3, requests), keys) - 1
    times_us = np.sort(random.integers(0, DAY_US, requests))
    sizes_bytes = np.full(requests, OBJECT_BYTES, np.int64)
    return Trace(times_us, ids.astype(np.int32), sizes_bytes, tuple(map(str, range(keys))))


def locality(trace: Trace) -> Locality:
    return locality_of(trace, object_bytes=OBJECT_BYTES, period_us=DAY_US)


def emptied_misses(trace: Trace, entries: int, at_us: list[int], boot_us: int) -> int:
    """Return the misses of a warm LRU cache that is emptied at these times and then away for a boot."""
    assert trace.key_ids is not None
    ids, times_us = trace.key_ids.tolist(), trace.arrivals_us.tolist()
    held: OrderedDict[int, None] = OrderedDict()
    misses, away_until_us, left = 0, -1, list(at_us)
    for is_second in (False, True):
        for id_, time_us in zip(ids, times_us, strict=True):
            while is_second and left and left[0] <= time_us:
                away_until_us = left.pop(0) + boot_us
                held.clear()
            is_away = is_second and time_us < away_until_us
            misses += is_second and (is_away or id_ not in held)
            if not is_away:
                held[id_] = None
                held.move_to_end(id_)
                if len(held) > entries:
                    held.popitem(last=False)
    return misses


@pytest.mark.parametrize("boot_s", [0, 600])
def test_misses_are_those_of_a_cache_that_is_emptied_in_the_mean(boot_s: int) -> None:
    """Two interruptions an hour, at a hundred draws of their times."""
    trace, boot_us, entries = day(), boot_s * US_PER_S, 40
    drawn = [Interruptions(2, seed).times(1, -DAY_US, DAY_US)[0] for seed in range(100)]
    # An interruption of the first day is one of the second day's gaps, too: both days are alike.
    emptied = [emptied_misses(trace, entries, at_us[at_us >= 0].tolist(), boot_us) for at_us in drawn]

    mean = np.mean(
        [
            float(
                locality(trace).misses(
                    entries * OBJECT_BYTES, repeats=Fraction(10**9), losses=CacheLosses(Interruptions(2, seed), boot_us)
                )
            )
            for seed in range(20)
        ]
    )

    usual = float(locality(trace).misses(entries * OBJECT_BYTES, repeats=Fraction(10**9)))
    assert mean > usual * 1.2
    # The cache above is not interrupted before its second day, so it loses a little less of the first reads.
    assert np.mean(emptied) == pytest.approx(mean, rel=0.03)


@given(st.fractions(0, 60), st.fractions(0, 60), st.integers(0, 1_000), st.integers(1, 120))
def test_a_higher_rate_never_loses_less(one: Fraction, other: Fraction, seed: int, entries: int) -> None:
    """The draws are the same at every rate."""
    lower, higher = (
        locality(day(600)).misses(
            entries * OBJECT_BYTES, repeats=Fraction(30), losses=CacheLosses(Interruptions(per_h, seed), 0)
        )
        for per_h in sorted((one, other))
    )
    assert lower <= higher


def test_only_nodes_on_spot_are_interrupted_and_at_rate_0_none() -> None:
    usual = Setup()
    assert losses_of(usual, "fargate-spot:2GB") == CacheLosses(Interruptions(Fraction(1, 100)), 35 * US_PER_S)
    assert losses_of(usual, "fargate:2GB") is None
    assert losses_of(usual, "t4g.micro") is None
    assert losses_of(replace(usual, interruptions_per_h=0), "fargate-spot:2GB") is None


def market(setup: Setup) -> Market:
    trace = day()
    demand = demand_of(trace, object_bytes=OBJECT_BYTES, period_us=DAY_US)
    return Market(demand=demand, locality=locality(trace), prices=TODAY, setup=setup, repeats=Fraction(365, 12))


def test_a_rival_and_an_own_node_on_spot_lose_the_same() -> None:
    """At the same rate and seed, and without readers' memory. At rate 0 both have what a task at the full price has."""

    def shares(per_h: int) -> tuple[float, float, float]:
        setup = Setup(relay="none", instance_type="fargate-spot:1GB", always_on_nodes=1, interruptions_per_h=per_h)
        spot, full = quotes(market(setup), names=("fargate-spot:1GB", "fargate:1GB"))
        month = static_month(market(setup), None)
        assert spot.name == "fargate-spot:1GB"
        return spot.in_memory_pct, full.in_memory_pct, 100 * month.n_redis / month.n

    spot, full, ours = shares(0)
    assert spot == full == pytest.approx(ours, abs=0.01)
    spot, full, ours = shares(2)
    assert spot == pytest.approx(ours, abs=0.01)
    assert spot < full - 1
