"""A key's transitions to other tiers: their rules, the requests that they need, and their blockers.

This module calls the rules of `core` with the same rows as the live code.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import ceil
from typing import Literal

from burstcache.adapters.use_table import StoredUse
from burstcache.core import policy
from burstcache.core.comparison import Comparison
from burstcache.core.express import ExpressRule
from burstcache.core.key_use import stored_key_use
from burstcache.core.node_use import FIRST_CHECK_US, arrive, stops_at_us, weight_until
from burstcache.core.parameters import US_PER_S
from burstcache.core.phases import ENTRY_BY_NODE_PHASE
from burstcache.core.policies import UsePolicy
from burstcache.core.policy import STRAGGLERS_US
from burstcache.core.recency import is_repeat
from burstcache.core.rows import KeyRow, NodeRow, Pause, SeenKey
from burstcache.core.worth import Worth
from burstcache.settings.explain import PolicySettings

To = Literal["s3", "express", "lambda", "redis", "memory", "pool"]
Rule = Literal[
    "is_hot",  # the newest requests of a key are close enough to each other
    "key_starts",  # a key's own requests pay for a cache function
    "cache_function_ready",  # the cache function has been started but has not announced itself
    "tick",  # the cache function ends unless requests extend its life
    "key_ends",  # a key's requests no longer pay for its cache function
    "wants_promotion",  # the load has lasted long enough for Redis to pay
    "node_boots",  # the requests for all keys of a node pay for the node
    "node_ready",  # the node is booting
    "is_released",  # a check of the node finds the key idle
    "node_stops",  # a check of the node finds that its use no longer pays
    "pause_stops_node",  # the janitor stops the nodes of a paused stack
    "pause_ends_function",  # no invocation replaces the cache function's while the stack is paused
    "copies",  # the reads of an object pay for its copy in Express
    "memory",  # readers keep objects in memory
    "pool",  # programs with the client library read from the pool
]
Reason = Literal[
    "cool_down",  # after failed lives
    "too_large",
    "no_tier",  # the stack has neither cache functions nor nodes
    "paused",
    "node_cools_down",  # after failed boots
    "node_hours",  # the day's hours are used up
    "node_stopping",
    "full",  # the number of hot keys has reached its limit
    "never_pays",  # no load pays for a cache function at these prices
    "held_by_hand",
    "always_on",
]


@dataclass(frozen=True, slots=True)
class Blocker:
    """A condition that blocks a transition."""

    reason: Reason
    until_us: int = 0  # 0: no known end
    value: float | None = None  # failures, bytes, keys
    limit: float | None = None


@dataclass(frozen=True, slots=True)
class Transition:
    """One possible transition of a key."""

    to: To
    rule: Rule
    requests: int | None = None  # number that causes it, or prevents a move to a slower tier; None if no number does
    at_us: int = 0  # earliest time without further requests; 0 if only requests cause it
    compared: tuple[Comparison, ...] = ()  # values of the rule, with one more request now if requests are the cause
    known_at_us: int = 0  # time of the values, without later requests; 0 if they are current
    holds: tuple[Blocker, ...] = ()


@dataclass(frozen=True, slots=True)
class StackRules:
    """The rules of a stack: its settings, the worth of its hits, and its rule for copies in Express."""

    settings: PolicySettings
    worth: Worth
    express: ExpressRule | None  # None if the stack makes no copies


@dataclass(frozen=True, slots=True)
class KeySnapshot:
    """The table's rows about a key at an instant."""

    now_us: int
    row: KeyRow
    node: NodeRow | None  # the node of the key's life, or its home node; None if the stack has no nodes
    is_served: bool  # whether the tier in the key's row, or its node, serves the key
    use: StoredUse = field(default_factory=StoredUse)  # of that node
    seen: SeenKey | None = None  # under a policy with read-through entries
    hot: frozenset[str] = frozenset()
    pause: Pause | None = None

    @property
    def size_bytes(self) -> int:
        """The object's size at its last read, or 0 if unknown."""
        return self.row.size_bytes or (self.seen.size_bytes if self.seen else 0)


def transitions_of(snapshot: KeySnapshot, rules: StackRules) -> tuple[Transition, ...]:
    """Return the possible transitions of a key, to faster tiers first."""
    use = rules.settings.policy.use
    transitions = _leased(snapshot, rules) if use is None else _by_use(snapshot, rules, use)
    if snapshot.pause:
        transitions = map(_under_pause, transitions)
    return (*transitions, *_unmanaged(snapshot, rules))


def _under_pause(transition: Transition) -> Transition:
    """Replace what returns a key to S3 by the pause, which neither requests nor a hold delay."""
    if transition.to != "s3":
        return transition
    is_function = transition.rule in ("tick", "key_ends")
    return Transition("s3", "pause_ends_function" if is_function else "pause_stops_node")


def _leased(snapshot: KeySnapshot, rules: StackRules) -> Iterator[Transition]:
    """Yield the transitions of a key under the `thesis` policy, which gives each key its own life and lease."""
    row, now_us, parameters = snapshot.row, snapshot.now_us, rules.settings.policy.parameters
    times_us = [request.at_us for request in row.window]
    if not row.is_live(now_us):
        span_us = policy.window_span_us(sorted([*times_us, now_us]), parameters)
        yield Transition(
            "redis" if _enters_redis(snapshot, rules) else "lambda",
            "is_hot",
            requests=policy.requests_to_start(
                row.window, now_us=now_us, changed_at_us=row.changed_at_us, parameters=parameters
            ),
            compared=(Comparison("window_span_s", _s(span_us), parameters.lambda_threshold_us / US_PER_S),),
            holds=tuple(_start_holds(snapshot, rules)),
        )
    elif row.phase in ("lambda", "restricted_lambda"):
        if not row.tier:
            yield Transition("lambda", "cache_function_ready")
        count = policy.count_since(row.trigger, row.window) if row.trigger else 0
        known_at_us = row.ready_at_us if row.tier else 0
        if snapshot.node:
            yield Transition(
                "redis",
                "wants_promotion",
                # Above the threshold a cache function requests Redis once it is ready, and at each later request.
                requests=policy.requests_to_promotion(count, parameters) or (1 if row.tier else None),
                compared=(Comparison("requests_since_start", count, parameters.redis_threshold),),
                known_at_us=known_at_us,
                holds=tuple(_boot_holds(snapshot, rules)),
            )
        if row.tier:
            ends_at_us = policy.lambda_ready(row.ready_at_us, count, parameters).deadline_us
            yield Transition(
                "s3",
                "tick",
                at_us=max(ends_at_us, row.lives_until_us),
                compared=(Comparison("tick_s", None, parameters.tick_us / US_PER_S),),
                known_at_us=known_at_us,
            )
    elif row.phase == "redis_bootup":
        yield Transition("redis", "node_ready")
    elif row.phase == "redis_running" and snapshot.node:
        queue_us = policy.newest_queue(times_us)
        before_us = policy.check_runs_us(snapshot.node.deadline_at_us) - STRAGGLERS_US - US_PER_S
        yield Transition(
            "s3",
            "is_released",
            at_us=policy.next_check_us(
                [queue_us], ready_at_us=snapshot.node.ready_at_us, after_us=before_us, parameters=parameters
            ),
            compared=(
                Comparison(
                    "queue_span_s",
                    _s(now_us - queue_us[0] if queue_us else None),
                    parameters.redis_utilization_us / US_PER_S,
                ),
            ),
            known_at_us=times_us[-1] if times_us else row.changed_at_us,
        )


def _by_use(snapshot: KeySnapshot, rules: StackRules, by_use: UsePolicy) -> Iterator[Transition]:
    """Yield the transitions of a key under a policy that decides by use."""
    node, now_us = snapshot.node, snapshot.now_us
    phase = node.phase_at(now_us) if node else "stopped"
    weight = by_use.worth.weight_of(snapshot.size_bytes)
    if node and phase in ("stopped", "stopping"):
        use = snapshot.use.use_by(by_use.node)
        needed = weight_until(by_use.node, use, now_us, lambda use: by_use.node.boots(use, now_us))
        is_seen = is_repeat(snapshot.seen.seen_at_us if snapshot.seen else None, now_us)
        yield Transition(
            "redis",
            "node_boots",
            requests=_requests(needed, weight, first=0 if is_seen else 1),
            compared=by_use.node.boot_comparisons(arrive(by_use.node, use, now_us), now_us),
            holds=tuple(_boot_holds(snapshot, rules)),
        )
    elif node and phase == "booting":
        yield Transition("redis", "node_ready")
    if rules.settings.has_relay and phase != "running":
        yield from _cache_function(snapshot, rules, by_use, node, weight, is_booting=phase == "booting")
    if node and phase == "running" and snapshot.is_served:
        yield _node_stops(snapshot, rules, by_use, node, weight)


def _cache_function(
    snapshot: KeySnapshot, rules: StackRules, by_use: UsePolicy, node: NodeRow | None, weight: int, *, is_booting: bool
) -> Iterator[Transition]:
    """Yield the start or the end of the key's cache function."""
    row, now_us, rule = snapshot.row, snapshot.now_us, by_use.key
    use = stored_key_use(rule, row.use, node_ready_us=node.ready_at_us if node else 0)
    if row.is_live(now_us):
        if not row.tier:
            yield Transition("lambda", "cache_function_ready")
        else:
            ends_at_us = max(row.ready_at_us, rule.lives_until_us(use, is_booting=False))
            yield Transition("s3", "key_ends", at_us=ends_at_us, known_at_us=row.ready_at_us)
    elif not rule.ever_starts:
        yield Transition("lambda", "key_starts", holds=(Blocker("never_pays"),))
    else:
        needed = weight_until(
            rule.arrivals,
            use,
            now_us,
            lambda use: use.last_us == now_us and rule.starts(use, is_booting=is_booting),
        )
        yield Transition(
            "lambda",
            "key_starts",
            requests=_requests(needed, weight),
            compared=rule.start_comparisons(arrive(rule.arrivals, use, now_us), is_booting=is_booting),
            holds=tuple(_start_holds(snapshot, rules)),
        )


def _node_stops(snapshot: KeySnapshot, rules: StackRules, by_use: UsePolicy, node: NodeRow, weight: int) -> Transition:
    """Return the stop of a running node if no further requests come, and the number of requests that prevents it."""
    rule, since_us = by_use.running(node.task_kind), node.ready_at_us
    use = snapshot.use.use_by(rule)
    check_at_us: int | None = since_us + FIRST_CHECK_US
    if snapshot.use.looked_at_us > since_us:
        check_at_us = rule.next_check_us(use, since_us=since_us, at_us=snapshot.use.looked_at_us)
    if check_at_us is None:  # the node no longer pays, so a hold or always-on keeps it running
        check_at_us = policy.check_runs_us(node.deadline_at_us) - STRAGGLERS_US
    next_us = check_at_us
    needed = weight_until(
        rule,
        use,
        snapshot.now_us,
        lambda use: rule.next_check_us(use, since_us=since_us, at_us=next_us) is not None,
    )
    return Transition(
        "s3",
        "node_stops",
        requests=_requests(needed, weight) if needed else None,
        at_us=stops_at_us(rule, use, since_us=since_us, check_at_us=check_at_us),
        known_at_us=max(snapshot.use.looked_at_us, since_us),
        holds=tuple(run_blockers(snapshot, rules, node)),
    )


def _unmanaged(snapshot: KeySnapshot, rules: StackRules) -> Iterator[Transition]:
    """Yield the transitions to tiers outside the key's life: the reader's memory, a copy in Express, and the pool."""
    settings, size_bytes = rules.settings, snapshot.size_bytes
    is_small = size_bytes <= settings.max_object_bytes
    compared = (Comparison("size_bytes", size_bytes, settings.max_object_bytes),)
    if settings.memory_mb and is_small:
        yield Transition("memory", "memory", requests=1, compared=compared)
    if rules.express and is_small and (copy_at := rules.express.copy_at(size_bytes)):
        yield Transition("express", "copies", requests=copy_at)
    if settings.pool_members and not is_small:
        yield Transition("pool", "pool", requests=1, compared=compared)


def _start_holds(snapshot: KeySnapshot, rules: StackRules) -> Iterator[Blocker]:
    """Yield the blockers of a life's start, in the scheduler's order."""
    row, settings, node = snapshot.row, rules.settings, snapshot.node
    if snapshot.now_us < row.not_before_us:
        yield Blocker("cool_down", until_us=row.not_before_us, value=row.failures)
    yield from _size_holds(snapshot, rules)
    if not (settings.redis_nodes or settings.has_relay):
        yield Blocker("no_tier")
    yield from _pause_holds(snapshot)
    if node and not settings.has_relay:
        yield from _barred(snapshot, node)
    if row.hash not in snapshot.hot and len(snapshot.hot) >= settings.max_hot_keys:
        yield Blocker("full", value=len(snapshot.hot), limit=settings.max_hot_keys)


def _boot_holds(snapshot: KeySnapshot, rules: StackRules) -> Iterator[Blocker]:
    """Yield the blockers of a boot of the key's node."""
    yield from _size_holds(snapshot, rules)
    if (node := snapshot.node) is not None:
        yield from _barred(snapshot, node)
        if node.phase_at(snapshot.now_us) == "stopping":
            yield Blocker("node_stopping", until_us=node.deadline_at_us)
    yield from _pause_holds(snapshot)


def run_blockers(snapshot: KeySnapshot, rules: StackRules, node: NodeRow) -> Iterator[Blocker]:
    """Yield the reasons that keep a node running although it no longer pays."""
    if node.is_held(snapshot.now_us):
        yield Blocker("held_by_hand", until_us=node.held_until_us)
    if node.node in [each.name for each in rules.settings.redis_nodes[: rules.settings.always_on_nodes]]:
        yield Blocker("always_on")


def _size_holds(snapshot: KeySnapshot, rules: StackRules) -> Iterator[Blocker]:
    if snapshot.size_bytes > rules.settings.max_object_bytes:
        yield Blocker("too_large", value=snapshot.size_bytes, limit=rules.settings.max_object_bytes)


def _pause_holds(snapshot: KeySnapshot) -> Iterator[Blocker]:
    if snapshot.pause:
        yield Blocker("paused", until_us=snapshot.pause.until_us)


def _barred(snapshot: KeySnapshot, node: NodeRow) -> Iterator[Blocker]:
    if node.is_barred(snapshot.now_us):
        reason: Reason = "node_cools_down" if node.failures else "node_hours"
        yield Blocker(reason, until_us=node.not_before_us, value=node.failures)


def _enters_redis(snapshot: KeySnapshot, rules: StackRules) -> bool:
    """Return whether a life that starts now enters Redis directly."""
    if not rules.settings.has_relay:
        return True
    return snapshot.node is not None and ENTRY_BY_NODE_PHASE[snapshot.node.phase_at(snapshot.now_us)] == "redis"


def _requests(needed: int | None, weight: int, *, first: int = 0) -> int | None:
    """Return the number of requests that reach the needed weight, or None if no number does.

    Args:
        needed: Weight to reach, or None if no weight is enough.
        weight: Weight of each request.
        first: Number of additional requests that do not count.
    """
    return max(1, ceil(needed / weight)) + first if needed is not None and weight else None


def _s(duration_us: int | None) -> float | None:
    return None if duration_us is None else duration_us / US_PER_S
