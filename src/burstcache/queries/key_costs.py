"""The costs of a key so far and in a month at the current rate, and the value of its hits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Literal

from burstcache.core.node_use import decode
from burstcache.core.parameters import US_PER_S
from burstcache.core.phases import KEY_PHASE_OF_STATE
from burstcache.core.worth import MICRO, TierPrices
from burstcache.queries.history import Step
from burstcache.queries.lives import KeyLife
from burstcache.queries.states import STATE_OF_KEY_PHASE
from burstcache.queries.transitions import KeySnapshot, StackRules

_MONTH_S = 730 * 3600  # a month in AWS's price lists


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of a cache function or a node's run until now, at list prices."""

    of: Literal["cache_function", "node_run"]
    since_us: int
    usd: float
    keys: int = 1  # number of keys that share the cost
    share_usd: float = 0.0  # this key's share, if all keys use the node equally


@dataclass(frozen=True, slots=True)
class EndedLife:
    """The cost of a key's newest ended lives, at list prices."""

    lives: int
    since_us: int  # start of the earliest life
    function_s: float  # time with a cache function
    function_usd: float  # cost of that time, plus the fixed price of each life
    node_s: float  # time in Redis
    node_usd: float  # cost of the node in that time, which other keys may have shared


@dataclass(frozen=True, slots=True)
class Month:
    """A month of 730 hours at the current rate. A rate is None if fewer than two requests are known."""

    requests_per_min: float | None  # of the key; unknown while a faster tier serves the key
    worth_usd: float | None  # value of serving these requests from memory, by HitValueUsdPerMillion
    node_requests_per_min: float | None  # of all keys of the node, weighted by their savings over S3
    node_worth_usd: float | None
    node_usd: float | None  # cost of a node that always runs on what it runs on now; None if the stack has no nodes
    node_pays_from_per_min: float | None
    cache_function_usd: float | None  # cost of a cache function that always runs; None without cache functions
    cache_function_pays_from_per_min: float | None
    hit_value_usd_per_million: float  # assumed value of a million avoided waits for S3, not money saved


def costs_of(snapshot: KeySnapshot, rules: StackRules, steps: Sequence[Step], *, sharers: int) -> tuple[Cost, ...]:
    """Return the costs of the key's current life and of its node's current run.

    Args:
        snapshot: The key's rows.
        rules: The stack's rules.
        steps: The states that a live key's execution has entered.
        sharers: Number of keys on the node, if the node runs.
    """
    now_us, row, node, prices = snapshot.now_us, snapshot.row, snapshot.node, rules.worth.prices
    costs = []
    if row.is_live(now_us) and row.entry != "redis":
        until_us = next((step.at_us for step in steps if step.state == STATE_OF_KEY_PHASE["redis_running"]), now_us)
        usd = float(prices.cache_usd(max(until_us - row.changed_at_us, 0)) + prices.life_usd)
        costs.append(Cost("cache_function", row.changed_at_us, usd, share_usd=usd))
    if node and node.phase_at(now_us) != "stopped":
        usd = float(prices.node_usd(max(now_us - node.booted_at_us, 0), node.task_kind))
        share_usd = usd / sharers if sharers and snapshot.is_served else 0.0
        costs.append(Cost("node_run", node.booted_at_us, usd, sharers, share_usd))
    return tuple(costs)


def ended_of(lives: Sequence[KeyLife], prices: TierPrices) -> EndedLife | None:
    """Return the cost of the ended lives, or None if no life has ended."""
    over = [life for life in lives if life.is_over]
    if not over:
        return None
    ended = [life.steps for life in over]
    functions_us = [lasted_us for steps in ended if (lasted_us := _function_us(steps)) is not None]
    node_us = sum(map(_node_us, ended))
    return EndedLife(
        lives=len(ended),
        since_us=min(steps[0].at_us for steps in ended),
        function_s=sum(functions_us) / US_PER_S,
        function_usd=float(prices.cache_usd(sum(functions_us)) + len(functions_us) * prices.life_usd),
        node_s=node_us / US_PER_S,
        node_usd=float(sum(_node_usd(life, prices) for life in over)),
    )


def _function_us(steps: Sequence[Step]) -> int | None:
    """Return the running time of an ended life's cache function, or None if there was no function [us]."""
    began_us = next((step.at_us for step in steps if _phase(step) in ("lambda", "restricted_lambda")), None)
    if began_us is None:
        return None
    return next(step.at_us for step in steps if step.at_us >= began_us and _has_no_function(step)) - began_us


def _has_no_function(step: Step) -> bool:
    is_in_redis = step.state == STATE_OF_KEY_PHASE["redis_running"]
    return is_in_redis or not step.state or _phase(step) in ("redis_shutdown", "s3")


def _node_us(steps: Sequence[Step]) -> int:
    """Return the time that an ended life spent in Redis [us]."""
    in_redis = STATE_OF_KEY_PHASE["redis_running"]
    return sum(then.at_us - step.at_us for step, then in pairwise(steps) if step.state == in_redis)


def _node_usd(life: KeyLife, prices: TierPrices) -> Fraction:
    return Fraction(_node_us(life.steps), US_PER_S) * prices.node_usd_per_s(life.task_kind)


def _phase(step: Step) -> str | None:
    return KEY_PHASE_OF_STATE.get(step.state)


def month_of(snapshot: KeySnapshot, rules: StackRules) -> Month:
    """Return the costs and the value of hits in a month at the current rate."""
    now_us, worth = snapshot.now_us, rules.worth
    hit_usd, key_hit_usd = float(worth.hit_usd), float(worth.hit_usd * worth.weight_of(snapshot.size_bytes) / MICRO)
    key_per_s = None if snapshot.is_served else _per_s([request.at_us for request in snapshot.row.window], now_us)
    node_per_s = None
    if (use := rules.settings.policy.use) is not None:
        if snapshot.row.use and not snapshot.is_served:
            learned = decode(snapshot.row.use)
            if use.key.knows(learned):
                key_per_s = _per_s(learned.times_us, now_us) or key_per_s
        node_use = snapshot.use.use_by(use.node)
        arrivals_per_s = _per_s(node_use.times_us, _use_at_us(snapshot))
        node_per_s = None if arrivals_per_s is None else arrivals_per_s * use.node.arrival_weight / MICRO
    node = snapshot.node
    task_kind = node.task_kind if node and node.phase_at(now_us) != "stopped" else ""
    node_usd_per_s = float(worth.prices.node_usd_per_s(task_kind)) if rules.settings.redis_nodes else None
    cache_usd_per_s = float(worth.prices.lambda_usd_per_s) if rules.settings.has_relay else None
    return Month(
        requests_per_min=_times(key_per_s, 60),
        worth_usd=_times(key_per_s, _MONTH_S * key_hit_usd),
        node_requests_per_min=_times(node_per_s, 60),
        node_worth_usd=_times(node_per_s, _MONTH_S * hit_usd),
        node_usd=_times(node_usd_per_s, _MONTH_S),
        node_pays_from_per_min=_times(node_usd_per_s, 60 / hit_usd),
        cache_function_usd=_times(cache_usd_per_s, _MONTH_S),
        cache_function_pays_from_per_min=_times(cache_usd_per_s, 60 / key_hit_usd) if key_hit_usd else None,
        hit_value_usd_per_million=float(worth.wait_usd * MICRO),
    )


def _use_at_us(snapshot: KeySnapshot) -> int:
    """Return the time up to which the node's use is known: now, or the last check of a running node [us]."""
    if snapshot.node is None or snapshot.node.phase_at(snapshot.now_us) != "running":
        return snapshot.now_us
    return max(snapshot.use.looked_at_us, snapshot.node.ready_at_us)


def _per_s(times_us: Sequence[int], now_us: int) -> float | None:
    """Return the rate of requests with these times, oldest first, including the time since the last request."""
    if len(times_us) < 2 or now_us <= times_us[0]:
        return None
    return (len(times_us) - 1) * US_PER_S / (now_us - times_us[0])


def _times(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor
