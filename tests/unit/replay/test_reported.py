"""Decisions that wait for the proxy's reports."""

from __future__ import annotations

import numpy as np

from burstcache_replay.reported import Reported
from burstcache_sim.policies.node_use import Breakeven
from burstcache_sim.traces.trace import Trace
from burstcache_sim.world.scenario import Scenario
from burstcache_sim.world.simulate import simulate
from burstcache_sim.world.world import Decider

US_PER_S = 1_000_000
POLICY = Breakeven.worth("0.00001")
# A burst after a request that nobody repeats.
AT_S = (0, *range(100, 160), 300)


def boots_ready_s(policy: Decider, at_s: tuple[float, ...]) -> list[float]:
    """Return the times at which nodes became ready [s]."""
    trace = Trace(np.array([round(each * US_PER_S) for each in at_s], np.int64), None, np.full(len(at_s), 10_000))
    return [ready_us / US_PER_S for ready_us, _ in simulate(policy, Scenario(trace)).redis_spans_us]


def test_a_boot_begins_at_the_read_that_finds_the_report_due() -> None:
    ready_s = boots_ready_s(Reported(POLICY), AT_S)

    # The first report is due at the second request, at 100 s; that of the requests from 101 s on is at 111 s.
    assert boots_ready_s(POLICY, AT_S)[0] - 30 == 109
    assert ready_s == [111 + 30]


def test_a_load_that_is_over_when_it_is_reported_boots_nothing() -> None:
    over_s = (*(number / 20 for number in range(150)), 300.0)

    assert boots_ready_s(POLICY, over_s)
    assert boots_ready_s(Reported(POLICY), over_s) == []


def test_hits_of_a_node_that_runs_are_seen_at_once() -> None:
    long_s = tuple(float(at_s) for at_s in range(600))

    plain, reported = boots_ready_s(POLICY, long_s), boots_ready_s(Reported(POLICY), long_s)

    assert len(plain) == len(reported) == 1
    assert 0 <= reported[0] - plain[0] <= 11
