"""What a key has cost so far, and what it would cost and save in a month at the present rate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Literal

from burstcache.core.node_use import decode, use_or_first
from burstcache.core.parameters import US_PER_S
from burstcache.core.phases import KEY_PHASE_OF_STATE
from burstcache.core.worth import MICRO, TierPrices
from burstcache.queries.history import Step
from burstcache.queries.lives import KeyLife
from burstcache.queries.moves import Known, StackRules
from burstcache.queries.states import STATE_OF_KEY_PHASE

_MONTH_S = 730 * 3600  # as price lists have it


@dataclass(frozen=True, slots=True)
class Cost:
    """What something has cost until now, by list prices."""

    of: Literal["cache_function", "node_run"]
    since_us: int
    usd: float
    keys: int = 1  # that share it
    share_usd: float = 0.0  # of this key, if all of them use it alike


@dataclass(frozen=True, slots=True)
class Ended:
    """What a key's newest lives that are over have cost, by list prices."""

    lives: int
    since_us: int  # when the first of them began
    function_s: float  # with a cache function
    function_usd: float  # of these, with what the lives cost apart from the function's time
    node_s: float  # in Redis
    node_usd: float  # of the node in that time, which other keys may have shared


@dataclass(frozen=True, slots=True)
class Month:
    """A month of 730 hours at the present rate. A rate is None where fewer than two requests are known."""

    requests_per_min: float | None  # of the key; while a faster tier serves it nobody writes its requests down
    worth_usd: float | None  # of answering these from memory, by HitValueUsdPerMillion
    node_requests_per_min: float | None  # worth as much as hits above bare S3, for all keys of its node
    node_worth_usd: float | None
    node_usd: float | None  # of a node that runs all the time; None: the stack has none
    node_pays_from_per_min: float | None
    cache_function_usd: float | None  # of one that runs all the time; None: the stack has none
    cache_function_pays_from_per_min: float | None
    hit_value_usd_per_million: float  # that a million answers without waiting for S3 are worth: no money saved


def costs_of(known: Known, rules: StackRules, steps: Sequence[Step], *, sharers: int) -> tuple[Cost, ...]:
    """Return what the key's life and the present run of its node have cost.

    Args:
        known: What the table has of the key.
        rules: What the stack decides by.
        steps: The states that the execution of a live key has entered.
        sharers: How many keys use the node, if it runs.
    """
    now_us, row, node, prices = known.now_us, known.row, known.node, rules.worth.prices
    costs = []
    if row.is_live(now_us) and row.entry != "redis":
        until_us = next((step.at_us for step in steps if step.state == STATE_OF_KEY_PHASE["redis_running"]), now_us)
        usd = float(prices.cache_usd(max(until_us - row.changed_at_us, 0)) + prices.life_usd)
        costs.append(Cost("cache_function", row.changed_at_us, usd, share_usd=usd))
    if node and node.phase_at(now_us) != "stopped":
        usd = float(prices.node_usd(max(now_us - node.booted_at_us, 0)))
        share_usd = usd / sharers if sharers and known.is_served else 0.0
        costs.append(Cost("node_run", node.booted_at_us, usd, sharers, share_usd))
    return tuple(costs)


def ended_of(lives: Sequence[KeyLife], prices: TierPrices) -> Ended | None:
    """Return what those of the lives that are over have cost; None if none is."""
    over = [life.steps for life in lives if life.is_over]
    if not over:
        return None
    functions_us = [lasted_us for steps in over if (lasted_us := _function_us(steps)) is not None]
    node_us = sum(map(_node_us, over))
    return Ended(
        lives=len(over),
        since_us=min(steps[0].at_us for steps in over),
        function_s=sum(functions_us) / US_PER_S,
        function_usd=float(prices.cache_usd(sum(functions_us)) + len(functions_us) * prices.life_usd),
        node_s=node_us / US_PER_S,
        node_usd=float(Fraction(node_us, US_PER_S) * prices.redis_usd_per_s),
    )


def _function_us(steps: Sequence[Step]) -> int | None:
    """Return how long a life that is over had a cache function; None if it never had one [us]."""
    began_us = next((step.at_us for step in steps if _phase(step) in ("lambda", "restricted_lambda")), None)
    if began_us is None:
        return None
    return next(step.at_us for step in steps if step.at_us >= began_us and _has_no_function(step)) - began_us


def _has_no_function(step: Step) -> bool:
    is_in_redis = step.state == STATE_OF_KEY_PHASE["redis_running"]
    return is_in_redis or not step.state or _phase(step) in ("redis_shutdown", "s3")


def _node_us(steps: Sequence[Step]) -> int:
    """Return how long a life that is over was in Redis [us]."""
    in_redis = STATE_OF_KEY_PHASE["redis_running"]
    return sum(then.at_us - step.at_us for step, then in pairwise(steps) if step.state == in_redis)


def _phase(step: Step) -> str | None:
    return KEY_PHASE_OF_STATE.get(step.state)


def month_of(known: Known, rules: StackRules) -> Month:
    """Return what a month costs at the present rate, and what its answers from memory are worth."""
    now_us, worth = known.now_us, rules.worth
    hit_usd, key_hit_usd = float(worth.hit_usd), float(worth.hit_usd * worth.weight_of(known.size_bytes) / MICRO)
    key_per_s = None if known.is_served else _per_s([request.at_us for request in known.row.window], now_us)
    node_per_s = None
    if (use := rules.settings.policy.use) is not None:
        if known.row.use and not known.is_served:
            learned = decode(known.row.use)
            if use.key.knows(learned):
                key_per_s = _per_s(learned.times_us, now_us) or key_per_s
        node_use = use_or_first(use.node, known.use.use)
        arrivals_per_s = _per_s(node_use.times_us, _use_known_us(known))
        node_per_s = None if arrivals_per_s is None else arrivals_per_s * use.node.whole / MICRO
    node_usd_per_s = float(worth.prices.redis_usd_per_s) if rules.settings.redis_nodes else None
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


def _use_known_us(known: Known) -> int:
    """Return until when the node's use is known: a running one's until the last look at it [us]."""
    if known.node is None or known.node.phase_at(known.now_us) != "running":
        return known.now_us
    return max(known.use.looked_at_us, known.node.ready_at_us)


def _per_s(times_us: Sequence[int], now_us: int) -> float | None:
    """Return the rate of requests at these times, the oldest first, with the present gap."""
    if len(times_us) < 2 or now_us <= times_us[0]:
        return None
    return (len(times_us) - 1) * US_PER_S / (now_us - times_us[0])


def _times(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor
