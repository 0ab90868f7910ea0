"""What the simulator says of a replay: its requests when they were due, under the stack's own settings and prices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from burstcache.access import parse_nodes
from burstcache.core.errors import InvalidSettingError
from burstcache.core.gathering import AT_LEAST_US
from burstcache.core.parameters import US_PER_S
from burstcache.core.policies import LivePolicy
from burstcache.core.prices import PriceSheet
from burstcache.core.worth import sheet_of_region
from burstcache.settings.policy import policy_in
from burstcache_replay.measured import ALWAYS_ON, Measured
from burstcache_replay.recording import Recorded
from burstcache_replay.reported import Reported
from burstcache_replay.schedule import Outcome
from burstcache_replay.summary import is_failed
from burstcache_sim.bill.setup import Setup
from burstcache_sim.policies.policy import Policy
from burstcache_sim.policies.registry import SIMULATED
from burstcache_sim.policies.thesis import Thesis
from burstcache_sim.traces.trace import Trace
from burstcache_sim.world.result import RunResult
from burstcache_sim.world.scenario import Scenario
from burstcache_sim.world.simulate import simulate
from burstcache_sim.world.timings import THESIS_TIMINGS, Timings, begun_late
from burstcache_sim.world.world import Decider

TIER_NAMES = {"S": "s3", "X": "express", "L": "lambda", "R": "redis"}
_REPORTED_LATE_US = AT_LEAST_US // 2
MEMORY = "memory"  # of the readers: what it answers reaches no tier


@dataclass(frozen=True, slots=True)
class Stand:
    """How the stack stands that a replay met."""

    policy: Policy
    name: str  # of the policy
    nodes: int
    setup: Setup
    prices: PriceSheet


@dataclass(frozen=True, slots=True)
class Prediction:
    """A simulated replay."""

    result: RunResult
    tiers: tuple[str, ...]  # of each request of the replay, as `X-Cache-Tier` names them


def stand_of(measured: Measured, recorded: Recorded) -> Stand:
    """Return how a stack stands.

    Raises:
        InvalidSettingError: It has what the simulator of one run cannot be given here.
    """
    settings = measured.settings
    if settings["EXPRESS_BUCKET"]:
        raise InvalidSettingError(
            "a stack with copies in S3 Express: expected one without, to be held to the simulator"
        )
    if int(settings.get(ALWAYS_ON) or 0):
        raise InvalidSettingError(
            "a stack with nodes that never stop: expected one that is off before a replay, to be held to the simulator"
        )
    live, has_relay = policy_in(settings), settings["HAS_RELAY"] == "true"
    prices = sheet_of_region(settings["AWS_REGION"])
    nodes = len(parse_nodes(settings["REDIS_NODES"]))
    policy = _policy(settings["POLICY"], live, has_relay=has_relay)
    sizes = [outcome.answer.body_bytes for outcome in recorded.outcomes]
    is_behind_alb = measured.services is not None and not measured.services.door_requests
    setup = Setup(
        architecture=measured.architecture,
        front_door="alb" if is_behind_alb else "http-api",
        instance_type=settings["REDIS_INSTANCE_TYPE"],
        cache_memory_mb=int(settings["CACHE_MEMORY_MB"]),
        readers="aws" if recorded.replay.target == "client" else "internet",
        object_bytes=round(sum(sizes) / max(1, len(sizes))),
        nodes=nodes,
        relay="nlb" if has_relay else "none",
    )
    return Stand(
        policy if nodes else policy.without_redis(len(sizes)), settings["POLICY"], max(1, nodes), setup, prices
    )


def predict(stand: Stand, recorded: Recorded, timings: Timings = THESIS_TIMINGS) -> Prediction:
    """Return what the simulator says of a replay's requests.

    Those that the readers' own memory answered reach nothing that is simulated, and what has no object makes no key
    hot: they stay what they were. The simulator starts functions and nodes at the request that pays for them. Where
    readers gather what they report, that request waits for its report: in the proxy for a read that finds it due, in a
    program for half of the time, on average.
    """
    policy: Decider = stand.policy
    if stand.policy.takes_guests and recorded.replay.target != "client":
        policy = Reported(stand.policy)
    elif stand.policy.takes_guests:
        timings = begun_late(timings, starts_us=_REPORTED_LATE_US, boots_us=_REPORTED_LATE_US)
    asked = [place for place, outcome in enumerate(recorded.outcomes) if is_predicted(outcome)]
    result = simulate(policy, Scenario(_trace(recorded, asked), stand.nodes, timings=timings))
    tiers = [outcome.answer.tier for outcome in recorded.outcomes]
    for place, letter in zip(asked, result.tiers, strict=True):
        tiers[place] = TIER_NAMES[letter]
    return Prediction(replace(result, n=len(tiers), n_memory=tiers.count(MEMORY)), tuple(tiers))


def is_predicted(outcome: Outcome) -> bool:
    """Whether a tier is predicted for a request: unless the readers' memory answered, or there is no such object."""
    is_refused = 400 <= outcome.answer.status < 500
    return outcome.answer.tier != MEMORY and (is_failed(outcome) or not is_refused)


def _policy(name: str, live: LivePolicy, *, has_relay: bool) -> Policy:
    if live.use is None:
        return Thesis(live.parameters, has_relay)
    return SIMULATED[name](live.use, has_relay)  # type: ignore[call-arg]


def _trace(recorded: Recorded, places: list[int]) -> Trace:
    """Return the requests as they were due, compressed as they were; an object has the size of its largest answer."""
    keys = tuple(dict.fromkeys(recorded.keys[place] for place in places))
    numbers: Mapping[str, int] = {key: number for number, key in enumerate(keys)}
    sizes_bytes = [0] * len(keys)
    ids = [numbers[recorded.keys[place]] for place in places]
    for place, number in zip(places, ids, strict=True):
        sizes_bytes[number] = max(sizes_bytes[number], recorded.outcomes[place].answer.body_bytes)
    due_s = (recorded.due_s[places] - recorded.replay.origin_s) / recorded.replay.speed
    return Trace(
        np.round(due_s * US_PER_S).astype(np.int64),
        np.array(ids, np.int32),
        np.array([sizes_bytes[number] for number in ids], np.int64),
        keys,
    )
