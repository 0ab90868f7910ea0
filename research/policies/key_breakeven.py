"""Break-even per key: each key takes a lease on a node, by its own requests alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from typing import ClassVar, NamedTuple, Self

from burstcache.core.breakeven import BreakevenParameters, BreakevenPrices, breakeven, redis_stop_us
from burstcache.core.parameters import US_PER_S
from burstcache.core.worth import TierPrices
from burstcache_sim.policies.policy import THESIS_PRICES, WorthPolicy
from burstcache_sim.world.result import Tier
from burstcache_sim.world.world import Key, Node, World


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyBreakevenParameters(BreakevenParameters):
    """Limits for nodes, and for cache functions as well. Times in microseconds."""

    uses_lambda: bool
    invoke_requests: int  # 1: any request starts a cache function, 2: only one close to its predecessor
    lambda_gap_us: int  # the limit of close, by which a cache function also outlives its last request
    keep_running_us: int = 120 * US_PER_S  # a cache function bridges the boot of Redis for this long


def key_breakeven(hit_value_usd: Fraction, prices: BreakevenPrices) -> KeyBreakevenParameters:
    """Derive the parameters from the value of a hit, each time truncated to microseconds.

    Args:
        hit_value_usd: Value of one request served from memory, > 0 [USD].
        prices: Prices of Lambda, Redis and S3.

    Raises:
        InvalidSettingError: The value is not above 0.

    Source:
        `docs/understand/simulation.md`, "The break-even policy". An idle cache function pays for one hit during its
        gap.
    """
    node = breakeven(hit_value_usd, prices)
    gap_s = (hit_value_usd + prices.s3_get_usd) / prices.lambda_usd_per_s
    least_run_usd = prices.least_s * prices.redis_usd_per_s + prices.run_usd
    return KeyBreakevenParameters(
        **{field.name: getattr(node, field.name) for field in fields(node)},
        uses_lambda=gap_s >= Fraction("3.6") or Fraction("2.7") * hit_value_usd >= Fraction("0.7") * least_run_usd,
        invoke_requests=1 if node.boot_requests == 1 else 2,
        lambda_gap_us=int(gap_s * US_PER_S),
    )


def prices_without_control(prices: TierPrices) -> BreakevenPrices:
    """Return the prices of a policy that judges each key by itself: control is free."""
    return BreakevenPrices(prices.lambda_usd_per_s, prices.redis_usd_per_s, prices.s3_get_usd)


def invokes(times_us: Sequence[int], parameters: KeyBreakevenParameters) -> bool:
    """Return whether the newest of the times starts a cache function.

    Args:
        times_us: The key's newest requests, oldest first [us]. The key has no cache function and Redis does not boot.
        parameters: The policy's parameters.
    """
    if parameters.invoke_requests == 1:
        return parameters.uses_lambda
    is_close = len(times_us) > 1 and times_us[-1] - times_us[-2] < parameters.lambda_gap_us
    return parameters.uses_lambda and is_close


def boots(times_us: Sequence[int], parameters: BreakevenParameters) -> bool:
    """Return whether the newest of the times, oldest first, boots a node that is off."""
    requests = parameters.boot_requests
    return len(times_us) >= requests and times_us[-1] - times_us[-requests] < parameters.boot_within_us


@dataclass(slots=True)
class _Memory:
    is_bridging: bool = False  # the cache function bridges a boot: requests no longer extend it


class KeyBreakevenRow(NamedTuple):
    """The parameters as integers, for the compiled engine."""

    keep_running_us: int
    boot_requests: int
    boot_within_us: int
    uses_lambda: int
    invoke_requests: int
    gap_us: int
    idle_us: int
    least_us: int


@dataclass(frozen=True)
class KeyBreakeven(WorthPolicy):
    """Break-even per key. Any start goes to a node that runs, and a node stops once none of its keys is requested.

    Source:
        `docs/understand/simulation.md`, "The break-even policy".
    """

    parameters: KeyBreakevenParameters

    name: ClassVar[str] = "breakeven-per-key"
    title: ClassVar[str] = "break-even per key"

    @property
    def window(self) -> int:
        """The number of requests that both starts look back on."""
        return max(2, self.parameters.boot_requests)

    def memory(self) -> _Memory:
        """Return the memory of a key without a cache function."""
        return _Memory()

    def handle_request(self, world: World, key: Key, at_us: int, tier: Tier) -> None:
        """Extend the tier that serves, or start a tier that pays."""
        node = key.node
        if tier == "L" and not key.memory.is_bridging:
            world.set_deadline(key, at_us + self.parameters.lambda_gap_us)
        if tier == "R":
            self._set_stop(world, node, at_us)
        elif node.since_us is not None:
            if self._invokes(key) or boots(key.window, self.parameters):
                world.join(key, at_us)
                self._set_stop(world, node, at_us)
        elif not key.is_leased:
            if self._invokes(key):
                self._start(world, key, at_us, self.parameters.lambda_gap_us)
            if node.stopped_us is None and boots(key.window, self.parameters):
                world.join(key, at_us)
                self._bridge(world, key, at_us)

    def check_node(self, world: World, node: Node, at_us: int) -> None:
        """Stop the node. The check is due at the instant at which the node has idled for long enough."""
        world.stop_node(node, at_us)

    def handle_ready(self, world: World, node: Node, at_us: int) -> None:
        """Run the node for at least its minimum bill."""
        self._set_stop(world, node, max(key.window[-1] for key in node.leases.values()))

    def _invokes(self, key: Key) -> bool:
        return not key.has_lambda and invokes(key.window, self.parameters)

    def _set_stop(self, world: World, node: Node, last_us: int) -> None:
        assert node.since_us is not None, "only a running node stops"
        world.schedule_check(node, redis_stop_us(since_us=node.since_us, last_us=last_us, parameters=self.parameters))

    def _start(self, world: World, key: Key, at_us: int, life_us: int) -> None:
        world.set_deadline(key, world.start_lambda(key, at_us) + life_us)
        key.memory.is_bridging = False

    def _bridge(self, world: World, key: Key, at_us: int) -> None:
        if not self.parameters.uses_lambda:
            return
        if key.lambda_deadline_us is None:
            self._start(world, key, at_us, self.parameters.keep_running_us)
        else:
            world.set_deadline(key, key.lambda_deadline_us + self.parameters.keep_running_us)
        key.memory.is_bridging = True

    def without_redis(self, requests: int) -> Self:
        """Return the policy with cache functions and a threshold out of reach for a trace of that many requests."""
        return replace(self, parameters=replace(self.parameters, boot_requests=requests + 1, uses_lambda=True))

    def compiled(self) -> KeyBreakevenRow | None:
        """Return the parameters in the order of the row. The engine replays one key, not keys that share nodes."""
        p = self.parameters
        return KeyBreakevenRow(
            p.keep_running_us,
            p.boot_requests,
            p.boot_within_us,
            int(p.uses_lambda),
            p.invoke_requests,
            p.lambda_gap_us,
            p.redis_idle_us,
            p.redis_least_us,
        )

    @classmethod
    def worth(cls, hit_value_usd: Fraction | str, prices: TierPrices = THESIS_PRICES) -> Self:
        """Derive the policy from the value of a hit. Raises `InvalidSettingError`."""
        return cls(key_breakeven(Fraction(hit_value_usd), prices_without_control(prices)))
