"""What would move a key to another tier, by which rule, and what keeps it from going there.

The rules are those of `core`: the live code and this call the same functions with the same rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import ceil
from typing import Literal

from burstcache.adapters.use_table import StoredUse
from burstcache.core import policy
from burstcache.core.compared import Compared
from burstcache.core.express import ExpressRule
from burstcache.core.key_use import stored_key_use
from burstcache.core.node_use import FIRST_LOOK_US, arrive, stops_at_us, use_or_first, weight_until
from burstcache.core.parameters import US_PER_S
from burstcache.core.phases import ENTRY_BY_NODE_PHASE
from burstcache.core.policies import UsePolicy
from burstcache.core.policy import STRAGGLERS_US
from burstcache.core.rows import KeyRow, Lease, NodeRow, Pause, SeenKey
from burstcache.core.seen import is_repeat
from burstcache.core.worth import Worth
from burstcache.settings.explain import PolicySettings

To = Literal["s3", "express", "lambda", "redis", "memory", "pool"]
Rule = Literal[
    "is_hot",  # the newest requests of a key are close enough to each other
    "key_starts",  # a key's own requests pay for a cache function
    "cache_function_ready",  # it has been started and has not announced itself
    "tick",  # a cache function ends unless its requests prolong it
    "key_ends",  # a key's requests no longer pay for its cache function
    "wants_promotion",  # the load lasts, so that Redis pays
    "node_boots",  # the requests for all keys of a node pay for it
    "node_ready",  # it boots
    "is_released",  # a check of the node finds the key idle
    "node_stops",  # a look at the node finds that its use no longer pays for it
    "copies",  # the reads of an object pay for its copy in Express
    "memory",  # of the reader
    "pool",  # of a program with the client library
]
Reason = Literal[
    "cool_down",  # after failed lives
    "too_large",
    "no_tier",  # the stack has neither cache functions nor nodes
    "paused",
    "node_cools_down",  # after failed boots
    "node_hours",  # of the day are used up
    "node_stopping",
    "full",  # as many keys are hot as may be
    "never_pays",  # no load pays for a cache function at these prices
    "held_by_hand",
    "always_on",
]


@dataclass(frozen=True, slots=True)
class Hold:
    """What keeps a key from moving."""

    reason: Reason
    until_us: int = 0  # 0: until something else changes
    value: float | None = None  # failures, bytes, keys
    limit: float | None = None


@dataclass(frozen=True, slots=True)
class Move:
    """One way that a key may go."""

    to: To
    rule: Rule
    requests: int | None = None  # that do it if they come now, or that prevent a move down; None: none do
    at_us: int = 0  # when it happens if no request comes, at the earliest; 0: it does not by itself
    compared: tuple[Compared, ...] = ()  # with one more request now, where requests do it
    known_at_us: int = 0  # what was served since then is not in the numbers; 0: they have all
    holds: tuple[Hold, ...] = ()


@dataclass(frozen=True, slots=True)
class StackRules:
    """What a stack decides by."""

    settings: PolicySettings
    worth: Worth
    express: ExpressRule | None  # None: it has no copies


@dataclass(frozen=True, slots=True)
class Known:
    """What the table has of a key at an instant."""

    now_us: int
    row: KeyRow
    node: NodeRow | None  # the node of its life, or the one that it belongs to; None: the stack has none
    is_served: bool  # by the tier that its row or its node says
    leases: tuple[Lease, ...] = ()  # of that node
    use: StoredUse = field(default_factory=StoredUse)  # of that node
    seen: SeenKey | None = None  # under a policy whose nodes take guests
    hot: frozenset[str] = frozenset()
    pause: Pause | None = None

    @property
    def size_bytes(self) -> int:
        """The object's size as it was read last; 0: unknown."""
        return self.row.size_bytes or (self.seen.size_bytes if self.seen else 0)


def moves_of(known: Known, rules: StackRules) -> tuple[Move, ...]:
    """Return where a key may go from where it is: up first."""
    use = rules.settings.policy.use
    moves = _leased(known, rules) if use is None else _by_use(known, rules, use)
    return (*moves, *_further(known, rules))


def _leased(known: Known, rules: StackRules) -> Iterator[Move]:
    """Yield the moves of a key that has a life and a lease of its own."""
    row, now_us, parameters = known.row, known.now_us, rules.settings.policy.parameters
    times_us = [request.at_us for request in row.window]
    if not row.is_live(now_us):
        span_us = policy.window_span_us(sorted([*times_us, now_us]), parameters)
        yield Move(
            "redis" if _enters_redis(known, rules) else "lambda",
            "is_hot",
            requests=policy.requests_to_start(
                row.window, now_us=now_us, changed_at_us=row.changed_at_us, parameters=parameters
            ),
            compared=(Compared("window_span_s", _s(span_us), parameters.lambda_threshold_us / US_PER_S),),
            holds=tuple(_start_holds(known, rules)),
        )
    elif row.phase in ("lambda", "restricted_lambda"):
        if not row.tier:
            yield Move("lambda", "cache_function_ready")
        count = policy.count_since(row.trigger, row.window) if row.trigger else 0
        known_at_us = row.ready_at_us if row.tier else 0
        if known.node:
            yield Move(
                "redis",
                "wants_promotion",
                # A cache function that is owed Redis asks when it is ready, and later at each request that it serves.
                requests=policy.requests_to_promotion(count, parameters) or (1 if row.tier else None),
                compared=(Compared("requests_since_start", count, parameters.redis_threshold),),
                known_at_us=known_at_us,
                holds=tuple(_boot_holds(known, rules)),
            )
        if row.tier:
            ends_at_us = policy.lambda_ready(row.ready_at_us, count, parameters).deadline_us
            yield Move(
                "s3",
                "tick",
                at_us=max(ends_at_us, row.lives_until_us),
                compared=(Compared("tick_s", None, parameters.tick_us / US_PER_S),),
                known_at_us=known_at_us,
            )
    elif row.phase == "redis_bootup":
        yield Move("redis", "node_ready")
    elif row.phase == "redis_running" and known.node:
        queue_us = policy.newest_queue(times_us)
        before_us = policy.check_runs_us(known.node.deadline_at_us) - STRAGGLERS_US - US_PER_S
        yield Move(
            "s3",
            "is_released",
            at_us=policy.next_check_us(
                [queue_us], ready_at_us=known.node.ready_at_us, after_us=before_us, parameters=parameters
            ),
            compared=(
                Compared(
                    "queue_span_s",
                    _s(now_us - queue_us[0] if queue_us else None),
                    parameters.redis_utilization_us / US_PER_S,
                ),
            ),
            known_at_us=times_us[-1] if times_us else row.changed_at_us,
        )


def _by_use(known: Known, rules: StackRules, decides: UsePolicy) -> Iterator[Move]:
    """Yield the moves of a key whose node is judged by its use."""
    node, now_us = known.node, known.now_us
    phase = node.phase_at(now_us) if node else "stopped"
    weight = decides.worth.weight_of(known.size_bytes)
    if node and phase in ("stopped", "stopping"):
        use = use_or_first(decides.node, known.use.use)
        needed = weight_until(decides.node, use, now_us, lambda use: decides.node.boots(use, now_us))
        is_seen = is_repeat(known.seen.seen_at_us if known.seen else None, now_us)
        yield Move(
            "redis",
            "node_boots",
            requests=_requests(needed, weight, first=0 if is_seen else 1),
            compared=decides.node.boot_compares(arrive(decides.node, use, now_us), now_us),
            holds=tuple(_boot_holds(known, rules)),
        )
    elif node and phase == "booting":
        yield Move("redis", "node_ready")
    if rules.settings.has_relay and phase != "running":
        yield from _cache_function(known, rules, decides, node, weight, is_booting=phase == "booting")
    if node and phase == "running" and known.is_served:
        yield _node_stops(known, rules, decides, node, weight)


def _cache_function(
    known: Known, rules: StackRules, decides: UsePolicy, node: NodeRow | None, weight: int, *, is_booting: bool
) -> Iterator[Move]:
    """Yield what starts or ends the cache function of a key."""
    row, now_us, rule = known.row, known.now_us, decides.key
    use = stored_key_use(rule, row.use, node_ready_us=node.ready_at_us if node else 0)
    if row.is_live(now_us):
        if not row.tier:
            yield Move("lambda", "cache_function_ready")
        else:
            ends_at_us = max(row.ready_at_us, rule.lives_until_us(use, is_booting=False))
            yield Move("s3", "key_ends", at_us=ends_at_us, known_at_us=row.ready_at_us)
    elif not rule.ever_starts:
        yield Move("lambda", "key_starts", holds=(Hold("never_pays"),))
    else:
        needed = weight_until(
            rule.arrivals,
            use,
            now_us,
            lambda use: use.last_us == now_us and rule.starts(use, is_booting=is_booting),
        )
        yield Move(
            "lambda",
            "key_starts",
            requests=_requests(needed, weight),
            compared=rule.start_compares(arrive(rule.arrivals, use, now_us), is_booting=is_booting),
            holds=tuple(_start_holds(known, rules)),
        )


def _node_stops(known: Known, rules: StackRules, decides: UsePolicy, node: NodeRow, weight: int) -> Move:
    """Return when a running node stops if nothing more is asked for, and how many requests prevent that."""
    rule, use, since_us = decides.node, use_or_first(decides.node, known.use.use), node.ready_at_us
    look_at_us: int | None = since_us + FIRST_LOOK_US
    if known.use.looked_at_us > since_us:
        look_at_us = rule.next_look_us(use, since_us=since_us, at_us=known.use.looked_at_us)
    if look_at_us is None:  # it does not pay any more, and something else keeps it running
        look_at_us = policy.check_runs_us(node.deadline_at_us) - STRAGGLERS_US
    next_us = look_at_us
    needed = weight_until(
        rule,
        use,
        known.now_us,
        lambda use: rule.next_look_us(use, since_us=since_us, at_us=next_us) is not None,
    )
    return Move(
        "s3",
        "node_stops",
        requests=_requests(needed, weight) if needed else None,
        at_us=stops_at_us(rule, use, since_us=since_us, look_at_us=look_at_us),
        known_at_us=max(known.use.looked_at_us, since_us),
        holds=tuple(run_holds(known, rules, node)),
    )


def _further(known: Known, rules: StackRules) -> Iterator[Move]:
    """Yield where reads may be served whatever the key's life: the reader's memory, a copy in Express, the pool."""
    settings, size_bytes = rules.settings, known.size_bytes
    is_small = size_bytes <= settings.max_object_bytes
    compared = (Compared("size_bytes", size_bytes, settings.max_object_bytes),)
    if settings.memory_mb and is_small:
        yield Move("memory", "memory", requests=1, compared=compared)
    if rules.express and is_small and (copy_at := rules.express.copy_at(size_bytes)):
        yield Move("express", "copies", requests=copy_at)
    if settings.pool_members and not is_small:
        yield Move("pool", "pool", requests=1, compared=compared)


def _start_holds(known: Known, rules: StackRules) -> Iterator[Hold]:
    """Yield what keeps a life from starting, in the order in which the scheduler asks."""
    row, settings, node = known.row, rules.settings, known.node
    if known.now_us < row.not_before_us:
        yield Hold("cool_down", until_us=row.not_before_us, value=row.failures)
    yield from _size_holds(known, rules)
    if not (settings.redis_nodes or settings.has_relay):
        yield Hold("no_tier")
    yield from _pause_holds(known)
    if node and not settings.has_relay:
        yield from _barred(known, node)
    if row.hash not in known.hot and len(known.hot) >= settings.max_hot_keys:
        yield Hold("full", value=len(known.hot), limit=settings.max_hot_keys)


def _boot_holds(known: Known, rules: StackRules) -> Iterator[Hold]:
    """Yield what keeps the key's node from booting for it."""
    yield from _size_holds(known, rules)
    if (node := known.node) is not None:
        yield from _barred(known, node)
        if node.phase_at(known.now_us) == "stopping":
            yield Hold("node_stopping", until_us=node.deadline_at_us)
    yield from _pause_holds(known)


def run_holds(known: Known, rules: StackRules, node: NodeRow) -> Iterator[Hold]:
    """Yield what keeps a node running that does not pay any more."""
    held_until_us = max((lease.held_until_us for lease in known.leases), default=0)
    if held_until_us > known.now_us:
        yield Hold("held_by_hand", until_us=held_until_us)
    if node.node in [each.name for each in rules.settings.redis_nodes[: rules.settings.always_on_nodes]]:
        yield Hold("always_on")


def _size_holds(known: Known, rules: StackRules) -> Iterator[Hold]:
    if known.size_bytes > rules.settings.max_object_bytes:
        yield Hold("too_large", value=known.size_bytes, limit=rules.settings.max_object_bytes)


def _pause_holds(known: Known) -> Iterator[Hold]:
    if known.pause:
        yield Hold("paused", until_us=known.pause.until_us)


def _barred(known: Known, node: NodeRow) -> Iterator[Hold]:
    if node.is_barred(known.now_us):
        reason: Reason = "node_cools_down" if node.failures else "node_hours"
        yield Hold(reason, until_us=node.not_before_us, value=node.failures)


def _enters_redis(known: Known, rules: StackRules) -> bool:
    """Whether a life that starts now begins with its node."""
    if not rules.settings.has_relay:
        return True
    return known.node is not None and ENTRY_BY_NODE_PHASE[known.node.phase_at(known.now_us)] == "redis"


def _requests(weight: int | None, each: int, *, first: int = 0) -> int | None:
    """Return how many requests of a weight reach another one, `first` of which do not count; None: none do."""
    return max(1, ceil(weight / each)) + first if weight is not None and each else None


def _s(duration_us: int | None) -> float | None:
    return None if duration_us is None else duration_us / US_PER_S
