"""Replays of one trace by the simulator and by the live code on a virtual clock.

The simulation has the durations of the world's functions and instances. Four differences by design are excluded:

- A reader reads the digest at most every 1.5 s and sees a tier change up to 1.5 s late. No two requests are closer
  together.
- A check decides by its nominal time and runs up to three seconds later, as Step Functions waits for whole seconds and
  the check for stragglers. Redis serves until then, and the instance takes time to stop. No request for that node's
  keys arrives in that interval.
- A reader batches its reports, and reports Express hits once a second, with a later hit. Here it reports each at once.
- Under use-based policies a cache function reports the requests it served every five seconds. `REPORT_S` is shorter
  than the gap to the next request.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate
from random import Random
from typing import Any

import numpy as np

from burstcache.core.messages.events import REQUESTS_SERVED, RequestsServed
from burstcache.core.parameters import US_PER_S
from burstcache_sim.policies.policy import Policy
from burstcache_sim.traces.trace import Trace
from burstcache_sim.world.result import RunResult, Tier
from burstcache_sim.world.scenario import Scenario
from burstcache_sim.world.timings import Timings
from burstcache_sim.world.world import Key, Node
from burstcache_sim.world.world import World as SimulatedWorld
from support.functions import BOOT_S, STOP_S
from support.runs import run_many
from support.world import World

KEYS = ("a", "b", "c")  # as many as may be hot; with two nodes, each is the home of at least one
REPORT_S = 0.25

_LETTERS = {"s3": "S", "express": "X", "lambda": "L", "redis": "R"}
_LEAST_GAP_US = 1_550_000  # the digest's greatest age and a margin
_CHECK_LASTS_US = 3_500_000
_STOP_LASTS_US = _CHECK_LASTS_US + (STOP_S + 1) * US_PER_S
# Cache functions start at once. A node is off once its instance has stopped after the check.
_TIMINGS = Timings(
    warm_start_us=0, cold_start_us=0, redis_boot_us=round(BOOT_S * US_PER_S), redis_stop_us=(STOP_S + 3) * US_PER_S
)


def trace_of(seed: int, means_s: tuple[float, ...], requests: int) -> Trace:
    """Return a trace of requests for a few keys whose mean gap changes at random among `means_s`."""
    random = Random(seed)
    gaps_us: list[int] = []
    ids: list[int] = []
    while len(gaps_us) < requests:
        mean_s, keys = random.choice(means_s), random.choice((KEYS[:1], KEYS))
        for _ in range(random.randint(3, 15)):
            gaps_us.append(_LEAST_GAP_US + round(random.expovariate(1 / mean_s) * US_PER_S))
            ids.append(KEYS.index(random.choice(keys)))
    return _trace(list(accumulate(gaps_us)), ids)


def replay(world: World, policy: Policy, trace: Trace, **scenario: Any) -> tuple[str, RunResult]:
    """Replay a trace without the excluded requests.

    Args:
        world: The live code, under the same policy.
        policy: The simulator's policy.
        trace: A trace from `trace_of`.
        scenario: Other fields of the simulation's `Scenario`.

    Returns:
        The live tier of each request, and the simulation of all requests.
    """
    trace, simulated = _quiet(trace, policy, **scenario)
    return _live(world, trace), simulated


def report_at_once(world: World) -> None:
    """Deliver the reports of cache functions at once instead of at the next read. Applies to lives that start later."""
    world.cache_tools = replace(world.cache_tools, reports=_Bus(world))


class _Bus:
    def __init__(self, world: World) -> None:
        self.world = world

    def start(self, event: RequestsServed) -> RequestsServed:
        return event

    def finish(self, report: RequestsServed) -> None:
        self.world.invoke("scheduler", {"detail-type": REQUESTS_SERVED, "detail": report})


class _Watched:
    """Policy wrapper that records the intervals in which the live system checks or stops a node."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.spans_us: list[tuple[int, int, int]] = []  # the node, from, until
        self.window = policy.window

    def memory(self) -> Any:
        return self.policy.memory()

    def handle_request(self, world: SimulatedWorld, key: Key, at_us: int, tier: Tier) -> None:
        self.policy.handle_request(world, key, at_us, tier)

    def check_node(self, world: SimulatedWorld, node: Node, at_us: int) -> None:
        self.policy.check_node(world, node, at_us)
        lasts_us = _CHECK_LASTS_US if node.stopped_us is None else _STOP_LASTS_US
        self.spans_us.append((node.index, at_us, at_us + lasts_us))

    def handle_ready(self, world: SimulatedWorld, node: Node, at_us: int) -> None:
        self.policy.handle_ready(world, node, at_us)

    def is_quiet(self, node: int, at_us: int) -> bool:
        return not any(node == of and from_us <= at_us < until_us for of, from_us, until_us in self.spans_us)


def _quiet(trace: Trace, policy: Policy, **scenario: Any) -> tuple[Trace, RunResult]:
    """Return a trace without the requests that arrive while their node is checked or stops, and its simulation."""
    assert trace.key_ids is not None
    times_us, ids = trace.arrivals_us.tolist(), trace.key_ids.tolist()
    homes = Scenario(trace, **scenario).homes()
    while True:
        watched = _Watched(policy)
        result = run_many(_trace(times_us, ids), watched, timings=_TIMINGS, **scenario)  # type: ignore[arg-type]
        requests = enumerate(zip(times_us, ids, strict=True))
        late = next((place for place, (at_us, key) in requests if not watched.is_quiet(homes[key], at_us)), None)
        if late is None:
            return _trace(times_us, ids), result
        del times_us[late], ids[late]


def _live(world: World, trace: Trace) -> str:
    assert trace.key_ids is not None
    for key in KEYS:
        world.put_object(key)
    begin_us, tiers = world.clock.now_us() + 10 * US_PER_S, ""
    for at_us, key in zip(trace.arrivals_us.tolist(), trace.key_ids.tolist(), strict=True):
        world.clock.sleep_until(begin_us + at_us)
        tiers += _LETTERS[world.read(KEYS[key])]
        world.reader.publish_hits()
        world.deliver()
    return tiers


def _trace(times_us: list[int], ids: list[int]) -> Trace:
    return Trace(np.array(times_us, np.int64), np.array(ids, np.int32), np.full(len(ids), 4), KEYS)
