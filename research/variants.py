"""Variants of break-even per key, a class each.

`docs/evidence/measurements/per-key.md` has their results. Variants with other parameters run compiled. Variants with
other decisions run in the readable simulator only. A successful one moves to `burstcache_sim.policies` unchanged and
gets an engine there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from random import Random
from typing import ClassVar, Self

from burstcache.core.breakeven import ALWAYS_US, BreakevenParameters
from burstcache.core.parameters import US_PER_S
from burstcache.core.worth import TierPrices
from burstcache_sim.policies.policy import THESIS_PRICES
from burstcache_sim.world.result import Tier
from burstcache_sim.world.world import Key, Node, World
from research.policies.key_breakeven import (
    KeyBreakeven,
    KeyBreakevenParameters,
    key_breakeven,
    prices_without_control,
)


class _Derived(KeyBreakeven):
    """A variant with other parameters."""

    @classmethod
    def worth(cls, hit_value_usd: Fraction | str, prices: TierPrices = THESIS_PRICES) -> Self:
        """Derive the policy from break-even's parameters."""
        worth_usd = Fraction(hit_value_usd)
        return cls(cls.changed(key_breakeven(worth_usd, prices_without_control(prices)), worth_usd, prices))

    @classmethod
    def changed(cls, usual: KeyBreakevenParameters, worth_usd: Fraction, prices: TierPrices) -> KeyBreakevenParameters:
        """Change break-even's parameters."""
        return usual


class StayTwice(_Derived):
    """Redis stays twice as long."""

    title: ClassVar[str] = "stay x 2"

    @classmethod
    def changed(cls, usual: KeyBreakevenParameters, worth_usd: Fraction, prices: TierPrices) -> KeyBreakevenParameters:
        """Double the stay."""
        return replace(usual, redis_idle_us=2 * usual.redis_idle_us)


class OneMoreRequest(_Derived):
    """A boot takes one more request, at break-even's spacing."""

    title: ClassVar[str] = "one more request to boot"

    @classmethod
    def changed(cls, usual: KeyBreakevenParameters, worth_usd: Fraction, prices: TierPrices) -> KeyBreakevenParameters:
        """Add a request, and extend the time for all of them."""
        redis_gap_us = (worth_usd + prices.s3_get_usd) / prices.redis_usd_per_s * US_PER_S
        within_us = int(redis_gap_us / 2 * usual.boot_requests)
        return replace(usual, boot_requests=usual.boot_requests + 1, boot_within_us=within_us)


class OneMoreRequestStayTwice(OneMoreRequest):
    """A boot takes one more request, and Redis stays twice as long."""

    title: ClassVar[str] = "one more request, stay x 2"

    @classmethod
    def changed(cls, usual: KeyBreakevenParameters, worth_usd: Fraction, prices: TierPrices) -> KeyBreakevenParameters:
        """Change both."""
        parameters = super().changed(usual, worth_usd, prices)
        return replace(parameters, redis_idle_us=2 * usual.redis_idle_us)


class NoCacheFunction(_Derived):
    """No cache functions."""

    title: ClassVar[str] = "no cache function"

    @classmethod
    def changed(cls, usual: KeyBreakevenParameters, worth_usd: Fraction, prices: TierPrices) -> KeyBreakevenParameters:
        """Disable cache functions."""
        return replace(usual, uses_lambda=False)


@dataclass(frozen=True, slots=True)
class Constants:
    """Constants of break-even's formulas, found by a random search."""

    gap: float
    requests: float
    request_value: float
    within: float
    idle: float
    idle_power: float
    lambda_from: float  # the hit value in minimum runs of Redis from which cache functions are used …
    lambda_always_from: float  # … and from which any request starts one
    keep_s: float


class Fitted(_Derived):
    """Break-even's formulas with constants fitted on other, random workloads."""

    title: ClassVar[str] = "fitted constants 1"
    constants: ClassVar[Constants] = Constants(0.747, 0.613, 1.648, 0.639, 2.289, 0.939, 0.319, 21.85, 120)

    @classmethod
    def changed(cls, usual: KeyBreakevenParameters, worth_usd: Fraction, prices: TierPrices) -> KeyBreakevenParameters:
        """Compute all parameters with the fitted constants."""
        c, redis_usd_per_s = cls.constants, float(prices.redis_usd_per_s)
        runs = float(worth_usd) / (60 * redis_usd_per_s)
        redis_gap_s = float(worth_usd + prices.s3_get_usd) / redis_usd_per_s
        requests = max(1, round(1 + c.requests * math.log2(1 + c.request_value / runs)))
        return KeyBreakevenParameters(
            boot_requests=requests,
            boot_within_us=ALWAYS_US if requests == 1 else _in_us(c.within * redis_gap_s * (requests - 1)),
            uses_lambda=runs >= c.lambda_from,
            invoke_requests=1 if runs >= c.lambda_always_from else 2,
            lambda_gap_us=_in_us(c.gap * float(worth_usd + prices.s3_get_usd) / float(prices.lambda_usd_per_s)),
            redis_idle_us=_in_us(c.idle * 60 * (redis_gap_s / 60) ** c.idle_power),
            keep_running_us=_in_us(c.keep_s),
        )


class FittedAgain(Fitted):
    """Break-even's formulas with the constants of another search."""

    title: ClassVar[str] = "fitted constants 2"
    constants: ClassVar[Constants] = Constants(0.145, 0.834, 1.502, 0.398, 2.305, 1.5, 0.554, 0.637, 112.698)


class _Readable(_Derived):
    """A variant with another decision."""

    def compiled(self) -> None:
        """Return None, since break-even's engine has other decisions."""


class AdaptiveBridge(_Readable):
    """Any two close requests start a cache function. During a boot it lives to its last hit plus the gap."""

    title: ClassVar[str] = "adaptive bridge"

    @classmethod
    def changed(cls, usual: KeyBreakevenParameters, worth_usd: Fraction, prices: TierPrices) -> KeyBreakevenParameters:
        """Always use cache functions, after two close requests."""
        return replace(usual, uses_lambda=True, invoke_requests=2)

    def _bridge(self, world: World, key: Key, at_us: int) -> None:
        """Leave the life of the cache function unchanged."""


class RandomStay(_Readable):
    """Redis stays for a random time up to break-even's stay, drawn at each request from the density of ski rental."""

    title: ClassVar[str] = "random stay"

    def _set_stop(self, world: World, node: Node, last_us: int) -> None:
        node.memory = node.memory or Random(1)  # equal draws at all hit values: noise between them flatters a match
        drawn = math.log(1 + node.memory.random() * (math.e - 1))
        _stay(world, node, last_us, int(drawn * self.parameters.redis_idle_us), self.parameters)


@dataclass(slots=True)
class _Learned:
    power: int = 0  # the stay is the usual one times 2 to this power
    stopped_us: int | None = None  # the last stop, until a request shows whether it was right


class LearnedStay(_Readable):
    """Redis stays twice as long if a request follows its stop within the usual stay, and half as long otherwise."""

    title: ClassVar[str] = "learned stay"

    def handle_request(self, world: World, key: Key, at_us: int, tier: Tier) -> None:
        """Learn from the first request after a stop, then decide as break-even does."""
        learned: _Learned | None = key.node.memory
        if learned is not None and learned.stopped_us is not None:
            is_regretted = at_us - learned.stopped_us < self.parameters.redis_idle_us
            learned.power = max(-2, min(1, learned.power + (1 if is_regretted else -1)))
            learned.stopped_us = None
        super().handle_request(world, key, at_us, tier)

    def check_node(self, world: World, node: Node, at_us: int) -> None:
        """Stop the node, and remember the time."""
        node.memory.stopped_us = at_us
        super().check_node(world, node, at_us)

    def _set_stop(self, world: World, node: Node, last_us: int) -> None:
        node.memory = node.memory or _Learned()
        _stay(world, node, last_us, int(self.parameters.redis_idle_us * 2.0**node.memory.power), self.parameters)


@dataclass(slots=True)
class _Burst:
    """The bursts of a key. A burst begins after a silence longer than break-even's stay."""

    is_bridging: bool = False
    begun_us: int | None = None
    period_us: int = 0
    is_regular: bool = False
    is_predicted: bool = False


class BootAhead(_Readable):
    """Two similar intervals between bursts predict the third. Redis boots at 3/4 of it, stays to 5/4. One key only."""

    title: ClassVar[str] = "boot ahead"

    def memory(self) -> _Burst:  # type: ignore[override]
        """Return the memory of a key without bursts."""
        return _Burst()

    def handle_request(self, world: World, key: Key, at_us: int, tier: Tier) -> None:
        """Note the start of a burst, then decide as break-even does."""
        burst: _Burst = key.memory
        if len(key.window) < 2 or at_us - key.window[-2] > self.parameters.redis_idle_us:
            period_us = 0 if burst.begun_us is None else at_us - burst.begun_us
            burst.is_regular = abs(period_us - burst.period_us) < burst.period_us // 2
            burst.begun_us, burst.period_us, burst.is_predicted = at_us, period_us, False
        super().handle_request(world, key, at_us, tier)

    def handle_ready(self, world: World, node: Node, at_us: int) -> None:
        """Wait for a predicted burst."""
        super().handle_ready(world, node, at_us)
        (key,) = node.leases.values()
        if key.memory.is_predicted and node.check_us is not None:
            world.schedule_check(node, max(node.check_us, key.memory.begun_us + key.memory.period_us * 5 // 4))

    def check_node(self, world: World, node: Node, at_us: int) -> None:
        """Stop a running node and predict the next burst, or boot for the predicted burst."""
        key = world.keys[0]
        burst: _Burst = key.memory
        if node.since_us is None:
            if node.is_off:
                burst.is_predicted = True
                world.join(key, at_us)
            return
        burst.is_regular = burst.is_regular and not burst.is_predicted  # predicted, but no burst came
        super().check_node(world, node, at_us)
        planned_us = (burst.begun_us or 0) + burst.period_us * 3 // 4
        if burst.is_regular and node.stopped_us is not None and planned_us > node.stopped_us:
            world.schedule_check(node, planned_us)


def _stay(world: World, node: Node, last_us: int, stay_us: int, parameters: BreakevenParameters) -> None:
    assert node.since_us is not None, "only a running node stops"
    world.schedule_check(node, max(node.since_us + parameters.redis_least_us, last_us + stay_us))


def _in_us(time_s: float) -> int:
    return int(min(time_s * US_PER_S, ALWAYS_US))


VARIANTS: tuple[type[KeyBreakeven], ...] = (
    StayTwice,
    OneMoreRequest,
    OneMoreRequestStayTwice,
    NoCacheFunction,
    Fitted,
    FittedAgain,
    AdaptiveBridge,
    RandomStay,
    LearnedStay,
    BootAhead,
)
