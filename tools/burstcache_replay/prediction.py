"""The simulator's prediction for a replay, with the requests as scheduled and the stack's settings and prices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from burstcache.access import parse_nodes
from burstcache.core.batching import MIN_BATCH_AGE_US
from burstcache.core.errors import InvalidSettingError
from burstcache.core.node_kinds import has_address, without_address
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
from burstcache_sim.policies.registry import WORTH_POLICIES
from burstcache_sim.policies.thesis import Thesis
from burstcache_sim.traces.trace import Trace
from burstcache_sim.world.result import RunResult
from burstcache_sim.world.scenario import Scenario
from burstcache_sim.world.simulate import simulate
from burstcache_sim.world.timings import THESIS_TIMINGS, Timings, begun_late
from burstcache_sim.world.world import Decider

TIER_NAMES = {"S": "s3", "X": "express", "L": "lambda", "R": "redis"}
_REPORTED_LATE_US = MIN_BATCH_AGE_US // 2
MEMORY = "memory"  # hits in readers' memory reach no simulated tier


@dataclass(frozen=True, slots=True)
class Deployment:
    """The simulator's configuration of the stack that served a replay."""

    policy: Policy
    name: str  # the policy's name
    nodes: int
    setup: Setup
    prices: PriceSheet


@dataclass(frozen=True, slots=True)
class Prediction:
    """A simulated replay."""

    result: RunResult
    tiers: tuple[str, ...]  # tier of each request, as in `X-Cache-Tier`


def deployment_of(measured: Measured, recorded: Recorded) -> Deployment:
    """Return a stack's configuration for the simulator.

    Raises:
        InvalidSettingError: The stack has copies in S3 Express or always-on nodes, which this comparison does not
            simulate.
    """
    settings = measured.settings
    if settings["EXPRESS_BUCKET"]:
        raise InvalidSettingError(
            "a stack with copies in S3 Express: expected one without, since they are not simulated"
        )
    if int(settings.get(ALWAYS_ON) or 0):
        raise InvalidSettingError(
            "a stack with always-on nodes: expected one that is off before a replay, since they are not simulated"
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
        instance_type=without_address(settings["REDIS_INSTANCE_TYPE"]),
        cache_memory_mb=int(settings["CACHE_MEMORY_MB"]),
        readers="aws" if recorded.replay.target == "client" else "internet",
        object_bytes=round(sum(sizes) / max(1, len(sizes))),
        nodes=nodes,
        relay="nlb" if has_relay else "none",
        relay_ipv4=has_address(settings["REDIS_INSTANCE_TYPE"]),
    )
    return Deployment(
        policy if nodes else policy.without_redis(len(sizes)), settings["POLICY"], max(1, nodes), setup, prices
    )


def predict(deployment: Deployment, recorded: Recorded, timings: Timings = THESIS_TIMINGS) -> Prediction:
    """Simulate a replay's requests.

    Hits in readers' memory reach no simulated tier, and requests for missing objects make no key hot. Both kinds keep
    the measured tier. The simulator starts functions and nodes at the request that justifies their cost. If readers
    batch reports, the start waits for the report. In the proxy, the report waits until a read finds the batch due. In a
    program, the report waits for half of the batching interval on average.
    """
    policy: Decider = deployment.policy
    if deployment.policy.takes_guests and recorded.replay.target != "client":
        policy = Reported(deployment.policy)
    elif deployment.policy.takes_guests:
        timings = begun_late(timings, starts_us=_REPORTED_LATE_US, boots_us=_REPORTED_LATE_US)
    simulated = [place for place, outcome in enumerate(recorded.outcomes) if is_predicted(outcome)]
    result = simulate(policy, Scenario(_trace(recorded, simulated), deployment.nodes, timings=timings))
    tiers = [outcome.answer.tier for outcome in recorded.outcomes]
    for place, letter in zip(simulated, result.tiers, strict=True):
        tiers[place] = TIER_NAMES[letter]
    return Prediction(replace(result, n=len(tiers), n_memory=tiers.count(MEMORY)), tuple(tiers))


def is_predicted(outcome: Outcome) -> bool:
    """Return whether a request has a predicted tier: its object exists, and readers' memory did not serve it."""
    is_refused = 400 <= outcome.answer.status < 500
    return outcome.answer.tier != MEMORY and (is_failed(outcome) or not is_refused)


def _policy(name: str, live: LivePolicy, *, has_relay: bool) -> Policy:
    if live.use is None:
        return Thesis(live.parameters, has_relay)
    return WORTH_POLICIES[name](live.use, has_relay)  # type: ignore[call-arg]


def _trace(recorded: Recorded, places: list[int]) -> Trace:
    """Return a trace of the requests at the replay's speed. An object's size is that of its largest response."""
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
