"""Traces replayed through the live code decide as the simulator does, request by request.

The simulation has the durations of the world's functions and instances. What differs by design is kept out:

- A reader reads the digest at most once a second and sees a change of the tier up to a second late: no two requests are
  closer together.
- A check decides by its nominal instant and runs up to three seconds later: Step Functions waits for whole seconds, and
  the check for stragglers. Redis serves until then, and the instance takes its time to stop. No request comes then.
- Under policies by use a cache function reports what it has served every five seconds, and a node boots that much later
  by it: these policies have no relay here.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate
from random import Random
from typing import Any

import numpy as np
import pytest

from burstcache.core.parameters import US_PER_S
from burstcache_sim.policies.node_use import Breakeven, Hazard
from burstcache_sim.policies.policy import Policy
from burstcache_sim.policies.thesis import Thesis
from burstcache_sim.traces.trace import Trace
from burstcache_sim.world.result import RunResult, Tier
from burstcache_sim.world.timings import Timings
from burstcache_sim.world.world import Key, Node
from burstcache_sim.world.world import World as SimulatedWorld
from support.policies import policy_named
from support.runs import run_many
from support.world import BOOT_S, STOP_S, World

LETTERS = {"s3": "S", "lambda": "L", "redis": "R"}
KEYS = ("a", "b", "c")  # as many as may be hot
LEAST_GAP_US = 1_050_000  # the digest's age, and a little
CHECK_LASTS_US = 3_500_000
STOP_LASTS_US = CHECK_LASTS_US + (STOP_S + 1) * US_PER_S
# Cache functions start at once; a node is off when its instance has stopped after the check.
TIMINGS = Timings(
    warm_start_us=0, cold_start_us=0, redis_boot_us=round(BOOT_S * US_PER_S), redis_stop_us=(STOP_S + 3) * US_PER_S
)


class Watched:
    """A policy that notes when it looks at a node."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.looks_us: list[int] = []
        self.window = policy.window

    def memory(self) -> Any:
        return self.policy.memory()

    def request(self, world: SimulatedWorld, key: Key, at_us: int, tier: Tier) -> None:
        self.policy.request(world, key, at_us, tier)

    def look(self, world: SimulatedWorld, node: Node, at_us: int) -> None:
        self.looks_us.append(at_us)
        self.policy.look(world, node, at_us)

    def ready(self, world: SimulatedWorld, node: Node, at_us: int) -> None:
        self.policy.ready(world, node, at_us)


def trace_of(seed: int, means_s: tuple[float, ...], requests: int) -> Trace:
    """Return a trace of requests for a few keys whose rate changes now and then between the means."""
    random = Random(seed)
    gaps_us: list[int] = []
    ids: list[int] = []
    while len(gaps_us) < requests:
        mean_s, keys = random.choice(means_s), random.choice((KEYS[:1], KEYS))
        for _ in range(random.randint(3, 15)):
            gaps_us.append(LEAST_GAP_US + round(random.expovariate(1 / mean_s) * US_PER_S))
            ids.append(KEYS.index(random.choice(keys)))
    return _trace(list(accumulate(gaps_us)), ids)


def quiet(trace: Trace, policy: Policy) -> tuple[Trace, RunResult]:
    """Return a trace without the requests that come while a check is under way or a node stops, and its simulation."""
    times_us, ids = trace.arrivals_us.tolist(), [] if trace.key_ids is None else trace.key_ids.tolist()
    while True:
        watched = Watched(policy)
        result = run_many(_trace(times_us, ids), watched, timings=TIMINGS)  # type: ignore[arg-type]
        spans_us = [(at_us, at_us + CHECK_LASTS_US) for at_us in watched.looks_us]
        spans_us += [(stop_us, stop_us + STOP_LASTS_US) for _, stop_us in result.redis_spans_us]
        late = next((i for i, at_us in enumerate(times_us) if any(a <= at_us < b for a, b in spans_us)), None)
        if late is None:
            return _trace(times_us, ids), result
        del times_us[late], ids[late]


def live(world: World, trace: Trace) -> str:
    """Return the tier of each request of a trace."""
    assert trace.key_ids is not None
    for key in KEYS:
        world.put_object(key)
    begin_us, tiers = world.clock.now_us() + 10 * US_PER_S, ""
    for at_us, key in zip(trace.arrivals_us.tolist(), trace.key_ids.tolist(), strict=True):
        world.clock.sleep_until(begin_us + at_us)
        tiers += LETTERS[world.read(KEYS[key])]
    return tiers


def _trace(times_us: list[int], ids: list[int]) -> Trace:
    return Trace(np.array(times_us, np.int64), np.array(ids, np.int32), np.full(len(ids), 4), KEYS)


@pytest.mark.parametrize("has_relay", [True, False])
@pytest.mark.parametrize("seed", range(2))
def test_thesis_policy(seed: int, has_relay: bool, make_world: Callable[..., World]) -> None:
    world = make_world(runs_machines=True, has_relay=has_relay)
    trace, expected = quiet(trace_of(seed, (1.0, 4.0, 40.0), 150), Thesis(world.parameters, has_relay))

    found = live(world, trace)

    assert found == expected.tiers
    assert set(found) == set("SLR" if has_relay else "SR")


@pytest.mark.parametrize("kind", [Breakeven, Hazard])
@pytest.mark.parametrize("seed", range(2))
def test_policies_by_use(seed: int, kind: type[Breakeven] | type[Hazard], make_world: Callable[..., World]) -> None:
    policy = policy_named(kind.name)
    world = make_world(runs_machines=True, has_relay=False, policy=policy)
    assert policy.use is not None
    trace, expected = quiet(trace_of(seed, (1.0, 4.0, 40.0), 150), kind(policy.use, has_relay=False))

    found = live(world, trace)

    assert found == expected.tiers
    assert expected.redis_starts > 1
    assert set(found) == set("SR")
