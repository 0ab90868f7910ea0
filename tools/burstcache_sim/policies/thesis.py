"""The thesis's policy: the live decisions of `core.policy` on simulated time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar, NamedTuple, Self

from burstcache.core.parameters import Parameters, configure, parameters_from_text
from burstcache.core.policy import (
    LambdaLife,
    is_hot,
    is_idle,
    lambda_ready,
    lambda_serves,
    newest_queue,
    promote,
    wants_promotion,
)
from burstcache.core.worth import TierPrices
from burstcache_sim.policies.policy import Options, Policy
from burstcache_sim.world.result import Tier
from burstcache_sim.world.world import Key, Node, World

SENSITIVITY = 4  # the only value that the thesis uses on all of its six workloads
_SENSITIVITIES = [Fraction(step, 4) for step in range(1, 21)]  # 0.25 to 5


@dataclass(slots=True)
class _Memory:
    life: LambdaLife | None = None  # life of the newest cache function
    was_missing: bool = False  # whether the last check found a lease without an entry


class ThesisRow(NamedTuple):
    """The parameters as integers for the compiled engine."""

    keep_running_us: int
    tick_us: int
    elements: int
    threshold_us: int
    redis_threshold: int
    utilization_us: int
    check_us: int
    uses_lambda: int


@dataclass(frozen=True)
class Thesis(Policy):
    """The thesis's policy. Each key is scheduled as in the live system. One check of a node covers all of its keys.

    Source:
        Thesis, section 4.2.3; `docs/understand/simulation.md`, "The thesis policy".
    """

    parameters: Parameters
    has_relay: bool = True  # without cache functions (False), S3 serves a hot key until its node has booted

    name: ClassVar[str] = "thesis"
    is_ticked: ClassVar[bool] = True

    @property
    def window(self) -> int:
        """The number of requests that the queue of five and both thresholds need."""
        return self.parameters.window_length

    def memory(self) -> _Memory:
        """Return the memory of a key before its first cache function."""
        return _Memory()

    def handle_request(self, world: World, key: Key, at_us: int, tier: Tier) -> None:
        """Count the request, then start a cache function or join the node if due."""
        memory: _Memory = key.memory
        if key.has_lambda and memory.life is not None:
            # Requests that S3 serves while the function starts also count. Only hits on the function extend its life.
            is_served = tier == "L"
            life = lambda_serves(memory.life, self.parameters) if is_served else _counted(memory.life)
            self._live(world, key, life)
            # While its node stops, the key stays in its tier and retries the promotion at its next request.
            if not key.is_leased and key.node.stopped_us is None and wants_promotion(life, self.parameters):
                self._live(world, key, promote(life, self.parameters))
                self._join(world, key, at_us)
        elif not key.is_leased and is_hot(key.window, self.parameters):
            if key.node.since_us is not None or not self.has_relay:
                self._join(world, key, at_us)
            else:
                self._live(world, key, lambda_ready(world.start_lambda(key, at_us), 0, self.parameters))

    def check_node(self, world: World, node: Node, at_us: int) -> None:
        """Release idle keys. Stop the node if no lease is left."""
        world.checks += 1
        for key in [key for key in node.leases.values() if self._leaves(key, at_us)]:
            key.memory.was_missing = False
            world.release(key)
        if node.leases:
            world.schedule_check(node, at_us + self.parameters.redis_check_us)
        else:
            world.stop_node(node, at_us)

    def _join(self, world: World, key: Key, at_us: int) -> None:
        """Join the node unless it is stopping. An always-on node is checked while it has leases."""
        if key.node.stopped_us is None:
            world.join(key, at_us)
            if key.node.since_us is not None and key.node.check_us is None:
                world.schedule_check(key.node, at_us + self.parameters.redis_check_us)

    def handle_ready(self, world: World, node: Node, at_us: int) -> None:
        """Schedule the first check."""
        world.schedule_check(node, at_us + self.parameters.redis_check_us)

    def _leaves(self, key: Key, at_us: int) -> bool:
        """Return whether a check releases a key: it is idle, or its object is missing for the second time."""
        memory: _Memory = key.memory
        if key.index in key.node.store:
            memory.was_missing = False
            return is_idle(newest_queue(key.window), check_at_us=at_us, parameters=self.parameters)
        was_missing, memory.was_missing = memory.was_missing, True
        return was_missing

    def _live(self, world: World, key: Key, life: LambdaLife) -> None:
        key.memory.life = life
        world.set_deadline(key, life.deadline_us)

    def without_redis(self, requests: int) -> Self:
        """Return a variant of the policy with a threshold that a trace of this many requests cannot reach."""
        if not self.has_relay:
            return replace(self, parameters=replace(self.parameters, lambda_threshold_us=0))
        return replace(self, parameters=replace(self.parameters, redis_threshold=requests + 1))

    def compiled(self) -> ThesisRow:
        """Return the parameters as a row for the compiled engine."""
        p = self.parameters
        return ThesisRow(
            p.keep_running_us,
            p.tick_us,
            p.lambda_window_elements,
            p.lambda_threshold_us,
            p.redis_threshold,
            p.redis_utilization_us,
            p.redis_check_us,
            int(self.has_relay),
        )

    @classmethod
    def configured(cls, rate_per_min: Fraction | int | str, sensitivity: Fraction | int | str) -> Self:
        """Derive the policy with the thesis's configurator, or raise an `InvalidSettingError`."""
        return cls(configure(Fraction(rate_per_min), Fraction(sensitivity)))

    @classmethod
    def at_rate(cls, rate_per_min: Fraction | int, sensitivity: int = SENSITIVITY) -> Self:
        """Derive the policy of a live system for a rate.

        Args:
            rate_per_min: Expected rate, > 0 [1/min]. Capped at 12 times the sensitivity. The live system rejects higher
                rates, at which TICK would be less than a second.
            sensitivity: Sensitivity of the configurator, 1 to 5.
        """
        return cls.configured(min(Fraction(rate_per_min), Fraction(12 * sensitivity)), sensitivity)

    @classmethod
    def from_options(cls, options: Options, prices: TierPrices) -> Self:
        """Build the policy from the configurator's parameters and the overrides."""
        return cls._of(options, options.sensitivity)

    @classmethod
    def describe(cls, options: Options) -> str:
        """Describe the policy by rate, sensitivity and overrides."""
        overrides = f", {options.overrides}" if options.overrides else ""
        return f"thesis, rate {options.rate} a minute, sensitivity {options.sensitivity}{overrides}"

    @classmethod
    def knob(cls, options: Options, prices: TierPrices) -> tuple[str, Sequence[Self]]:
        """Return a curve of all sensitivities at one rate."""
        low, high = float(_SENSITIVITIES[0]), float(_SENSITIVITIES[-1])
        settings = [cls._of(options, str(float(sensitivity))) for sensitivity in _SENSITIVITIES]
        return f"thesis, rate {options.rate}, sensitivity {low:g} to {high:g}", settings

    @classmethod
    def _of(cls, options: Options, sensitivity: str) -> Self:
        # The live system rejects a TICK truncated to 0. Under the thesis's rules, it is valid.
        return cls(
            parameters_from_text(
                rate=options.rate, sensitivity=sensitivity, overrides=options.overrides, least_tick_s=0
            ),
            options.has_relay,
        )


def _counted(life: LambdaLife) -> LambdaLife:
    return replace(life, count=life.count + 1)
