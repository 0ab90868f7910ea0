"""What the break-even policy could be instead, a class each.

`docs/evidence/measurements/policies.md` has what came of them. A variant of the parameters runs compiled. One of the
decisions runs in the readable simulator only; a winner moves to `burstcache_sim.policies` as it is and gets an engine
there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from random import Random
from typing import ClassVar, Self

from burstcache.core.breakeven import ALWAYS_US, BreakevenParameters, breakeven
from burstcache.core.parameters import US_PER_S
from burstcache.core.worth import TierPrices
from burstcache_sim.policies.key_breakeven import KeyBreakeven
from burstcache_sim.policies.policy import THESIS_PRICES, weighed_by_keys
from burstcache_sim.world.result import Tier
from burstcache_sim.world.world import Key, Node, World


class _Derived(KeyBreakeven):
    """Break-even with its parameters changed."""

    @classmethod
    def worth(cls, hit_value_usd: Fraction | str, prices: TierPrices = THESIS_PRICES) -> Self:
        """Return the policy whose parameters follow from break-even's."""
        worth_usd = Fraction(hit_value_usd)
        return cls(cls.changed(breakeven(worth_usd, weighed_by_keys(prices)), worth_usd, prices))

    @classmethod
    def changed(cls, usual: BreakevenParameters, worth_usd: Fraction, prices: TierPrices) -> BreakevenParameters:
        """Return the parameters for break-even's own."""
        return usual


class StayTwice(_Derived):
    """Redis stays twice as long."""

    title: ClassVar[str] = "stay x 2"

    @classmethod
    def changed(cls, usual: BreakevenParameters, worth_usd: Fraction, prices: TierPrices) -> BreakevenParameters:
        """Double the stay."""
        return replace(usual, redis_idle_us=2 * usual.redis_idle_us)


class OneMoreRequest(_Derived):
    """One more request must ask for a boot, at break-even's spacing."""

    title: ClassVar[str] = "one more request to boot"

    @classmethod
    def changed(cls, usual: BreakevenParameters, worth_usd: Fraction, prices: TierPrices) -> BreakevenParameters:
        """Ask for one more, and widen what they must lie within."""
        redis_gap_us = (worth_usd + prices.s3_get_usd) / prices.redis_usd_per_s * US_PER_S
        within_us = int(redis_gap_us / 2 * usual.boot_requests)
        return replace(usual, boot_requests=usual.boot_requests + 1, boot_within_us=within_us)


class OneMoreRequestStayTwice(OneMoreRequest):
    """Both of the above."""

    title: ClassVar[str] = "one more request, stay x 2"

    @classmethod
    def changed(cls, usual: BreakevenParameters, worth_usd: Fraction, prices: TierPrices) -> BreakevenParameters:
        """Change both."""
        parameters = super().changed(usual, worth_usd, prices)
        return replace(parameters, redis_idle_us=2 * usual.redis_idle_us)


class NoCacheFunction(_Derived):
    """No cache function at all."""

    title: ClassVar[str] = "no cache function"

    @classmethod
    def changed(cls, usual: BreakevenParameters, worth_usd: Fraction, prices: TierPrices) -> BreakevenParameters:
        """Use none."""
        return replace(usual, uses_lambda=False)


@dataclass(frozen=True, slots=True)
class Constants:
    """The constants of break-even's formulas, as a random search left them."""

    gap: float
    requests: float
    request_value: float
    within: float
    idle: float
    idle_power: float
    lambda_from: float  # hit values in minimum runs of Redis: from here on a cache function is used …
    lambda_always_from: float  # … and from here on any request starts one
    keep_s: float


class Fitted(_Derived):
    """The same formulas with constants fitted on other, random workloads."""

    title: ClassVar[str] = "fitted constants 1"
    constants: ClassVar[Constants] = Constants(0.747, 0.613, 1.648, 0.639, 2.289, 0.939, 0.319, 21.85, 120)

    @classmethod
    def changed(cls, usual: BreakevenParameters, worth_usd: Fraction, prices: TierPrices) -> BreakevenParameters:
        """Compute all of them anew."""
        c, redis_usd_per_s = cls.constants, float(prices.redis_usd_per_s)
        runs = float(worth_usd) / (60 * redis_usd_per_s)
        redis_gap_s = float(worth_usd + prices.s3_get_usd) / redis_usd_per_s
        requests = max(1, round(1 + c.requests * math.log2(1 + c.request_value / runs)))
        return BreakevenParameters(
            boot_requests=requests,
            boot_within_us=ALWAYS_US if requests == 1 else _in_us(c.within * redis_gap_s * (requests - 1)),
            uses_lambda=runs >= c.lambda_from,
            invoke_requests=1 if runs >= c.lambda_always_from else 2,
            lambda_gap_us=_in_us(c.gap * float(worth_usd + prices.s3_get_usd) / float(prices.lambda_usd_per_s)),
            redis_idle_us=_in_us(c.idle * 60 * (redis_gap_s / 60) ** c.idle_power),
            keep_running_us=_in_us(c.keep_s),
        )


class FittedAgain(Fitted):
    """The result of another search."""

    title: ClassVar[str] = "fitted constants 2"
    constants: ClassVar[Constants] = Constants(0.145, 0.834, 1.502, 0.398, 2.305, 1.5, 0.554, 0.637, 112.698)


class _Readable(_Derived):
    """Break-even with a decision changed."""

    def compiled(self) -> None:
        """Return None: break-even's engine decides otherwise."""


class AdaptiveBridge(_Readable):
    """Any two close requests start a cache function; it bridges a boot as long as its own requests want it."""

    title: ClassVar[str] = "adaptive bridge"

    @classmethod
    def changed(cls, usual: BreakevenParameters, worth_usd: Fraction, prices: TierPrices) -> BreakevenParameters:
        """Always allow a cache function to two close requests."""
        return replace(usual, uses_lambda=True, invoke_requests=2)

    def _bridge(self, world: World, key: Key, at_us: int) -> None:
        """Leave the cache function as it is."""


class RandomStay(_Readable):
    """Redis stays for a time drawn from ski rental's density at each request, up to break-even's stay."""

    title: ClassVar[str] = "random stay"

    def _set_stop(self, world: World, node: Node, last_us: int) -> None:
        node.memory = node.memory or Random(1)  # the same draws at every knob: noise between knobs flatters a match
        drawn = math.log(1 + node.memory.random() * (math.e - 1))
        _stay(world, node, last_us, int(drawn * self.parameters.redis_idle_us), self.parameters)


@dataclass(slots=True)
class _Learned:
    power: int = 0  # of 2: how much of the usual stay
    stopped_us: int | None = None  # until a request has shown whether that was right


class LearnedStay(_Readable):
    """Redis stays twice as long after a stop that a request within the usual stay regrets, else half as long."""

    title: ClassVar[str] = "learned stay"

    def request(self, world: World, key: Key, at_us: int, tier: Tier) -> None:
        """Learn from the first request after a stop; then decide as break-even does."""
        learned: _Learned | None = key.node.memory
        if learned is not None and learned.stopped_us is not None:
            is_regretted = at_us - learned.stopped_us < self.parameters.redis_idle_us
            learned.power = max(-2, min(1, learned.power + (1 if is_regretted else -1)))
            learned.stopped_us = None
        super().request(world, key, at_us, tier)

    def look(self, world: World, node: Node, at_us: int) -> None:
        """Stop the node, and remember when."""
        node.memory.stopped_us = at_us
        super().look(world, node, at_us)

    def _set_stop(self, world: World, node: Node, last_us: int) -> None:
        node.memory = node.memory or _Learned()
        _stay(world, node, last_us, int(self.parameters.redis_idle_us * 2.0**node.memory.power), self.parameters)


@dataclass(slots=True)
class _Burst:
    """What a key's bursts look like: one begins after a silence of more than break-even's stay."""

    is_bridging: bool = False
    begun_us: int | None = None
    period_us: int = 0
    is_regular: bool = False
    is_foreseen: bool = False


class BootAhead(_Readable):
    """Two like intervals between bursts foretell the third: Redis boots at 3/4 of it and stays to 5/4. One key only."""

    title: ClassVar[str] = "boot ahead"

    def memory(self) -> _Burst:  # type: ignore[override]
        """Return the memory of a key without bursts."""
        return _Burst()

    def request(self, world: World, key: Key, at_us: int, tier: Tier) -> None:
        """Note whether a burst begins; then decide as break-even does."""
        burst: _Burst = key.memory
        if len(key.window) < 2 or at_us - key.window[-2] > self.parameters.redis_idle_us:
            period_us = 0 if burst.begun_us is None else at_us - burst.begun_us
            burst.is_regular = abs(period_us - burst.period_us) < burst.period_us // 2
            burst.begun_us, burst.period_us, burst.is_foreseen = at_us, period_us, False
        super().request(world, key, at_us, tier)

    def ready(self, world: World, node: Node, at_us: int) -> None:
        """Wait for a burst that was foreseen."""
        super().ready(world, node, at_us)
        (key,) = node.leases.values()
        if key.memory.is_foreseen and node.look_us is not None:
            world.set_look(node, max(node.look_us, key.memory.begun_us + key.memory.period_us * 5 // 4))

    def look(self, world: World, node: Node, at_us: int) -> None:
        """Stop a running node and foresee the next burst; boot for one that was foreseen."""
        key = world.keys[0]
        burst: _Burst = key.memory
        if node.since_us is None:
            if node.is_off:
                burst.is_foreseen = True
                world.join(key, at_us)
            return
        burst.is_regular = burst.is_regular and not burst.is_foreseen  # foreseen, and nobody came
        super().look(world, node, at_us)
        planned_us = (burst.begun_us or 0) + burst.period_us * 3 // 4
        if burst.is_regular and node.stopped_us is not None and planned_us > node.stopped_us:
            world.set_look(node, planned_us)


def _stay(world: World, node: Node, last_us: int, stay_us: int, parameters: BreakevenParameters) -> None:
    assert node.since_us is not None, "only a running node stops"
    world.set_look(node, max(node.since_us + parameters.redis_least_us, last_us + stay_us))


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
