"""A key's use under `breakeven` and `hazard`. It decides when the key's cache function starts and ends.

The use is stored in the key's row or in its cache function's memory. It has the form of a node's use, but counts every
request as an arrival. Break-even treats a cache function like a node with the function's prices. Under hazard, a cache
function pays sooner if it only bridges a boot. While a node runs, its requests are not recorded per key, so gaps that
include a run are not learned.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Protocol

from burstcache.core import breakeven, hazard
from burstcache.core.breakeven import BreakevenPrices
from burstcache.core.comparison import Comparison
from burstcache.core.hazard import Belief
from burstcache.core.node_use import BreakevenUse, HazardUse, NodeUse, UseRule, decode, interrupted
from burstcache.core.worth import MICRO, Worth

KeyUse = NodeUse


_MARGIN = 2  # under break-even, a cache function must earn twice its price, since many bursts end before it starts
_MAX_PER_S = 4  # the hazard policy's highest rate, which no load is expected to exceed
_LIFE_S = 120  # expected life of a cache function under hazard, over which its start price is spread


class KeyRule(Protocol):
    """The rule that learns a key's use and makes decisions from it. Equal rules make equal decisions."""

    @property
    def arrivals(self) -> UseRule:
        """The rule that learns the key's arrivals."""

    @property
    def ever_starts(self) -> bool:
        """Whether any load starts a cache function at these prices. If not, no key's use needs to be stored."""

    def first(self) -> KeyUse:
        """Return the use of a key without requests."""

    def knows(self, use: KeyUse) -> bool:
        """Return whether a use was learned under the same policy."""

    def observe(self, use: KeyUse, at_us: int, weight: int = MICRO) -> KeyUse:
        """Return the use after a request.

        Args:
            use: The key's use before the request.
            at_us: Time of the request [us].
            weight: Weight of the request, as computed by `Worth.weight_of`. It is small if a copy in S3 Express would
                have served the request otherwise [millionths].
        """

    def starts(self, use: KeyUse, *, is_booting: bool) -> bool:
        """Return whether the newest arrival, unless it is the first, starts a cache function if none serves the key.

        Args:
            use: The key's use, including that arrival.
            is_booting: Whether the key's node is booting. A cache function then only bridges the boot.
        """

    def start_comparisons(self, use: KeyUse, *, is_booting: bool) -> tuple[Comparison, ...]:
        """Return the comparisons that `starts` makes. All of them must hold."""

    def lives_until_us(self, use: KeyUse, *, is_booting: bool) -> int:
        """Return the time at which a cache function stops paying if no request follows [us]."""


@dataclass(frozen=True)
class BreakevenKey:
    """The rule for a key's use under the break-even policy. The rule is the same during a boot."""

    arrivals: BreakevenUse
    ever_starts: bool

    def first(self) -> KeyUse:
        """Return a use without arrivals."""
        return self.arrivals.first()

    def knows(self, use: KeyUse) -> bool:
        """Return whether a use was learned by a rule of this kind."""
        return self.arrivals.knows(use)

    def observe(self, use: KeyUse, at_us: int, weight: int = MICRO) -> KeyUse:
        """Record the time at which the weights add up to an arrival."""
        return self.arrivals.observe(use, at_us, weight)

    def starts(self, use: KeyUse, *, is_booting: bool) -> bool:
        """Return whether enough requests came within the limit."""
        return self.arrivals.boots(use, use.last_us)

    def start_comparisons(self, use: KeyUse, *, is_booting: bool) -> tuple[Comparison, ...]:
        """Return the span of the newest requests and its limit."""
        return self.arrivals.boot_comparisons(use, use.last_us)

    def lives_until_us(self, use: KeyUse, *, is_booting: bool) -> int:
        """Return the end of the idle timeout after the newest request [us]."""
        return use.last_us + self.arrivals.parameters.redis_idle_us


@dataclass(frozen=True)
class HazardKey:
    """The rule for a key's use under the hazard policy."""

    arrivals: HazardUse

    @property
    def ever_starts(self) -> bool:
        """Whether any of the rates pays for a cache function."""
        parameters = self.arrivals.parameters
        return any((*parameters.invoke.gains, *parameters.bridge.gains))

    def first(self) -> KeyUse:
        """Return a use with the prior belief."""
        return self.arrivals.first()

    def knows(self, use: KeyUse) -> bool:
        """Return whether a use was learned by a rule of this kind."""
        return self.arrivals.knows(use)

    def observe(self, use: KeyUse, at_us: int, weight: int = MICRO) -> KeyUse:
        """Learn the gap once the weights add up to an arrival."""
        return self.arrivals.observe(use, at_us, weight)

    def starts(self, use: KeyUse, *, is_booting: bool) -> bool:
        """Return whether the expected rate pays for a cache function."""
        belief = _belief(use)
        return belief.gaps > 0 and hazard.pays(belief, self._benefit(is_booting))

    def start_comparisons(self, use: KeyUse, *, is_booting: bool) -> tuple[Comparison, ...]:
        """Return the expected gain and the expected loss."""
        return (hazard.compare(_belief(use), self._benefit(is_booting)),)

    def lives_until_us(self, use: KeyUse, *, is_booting: bool) -> int:
        """Return the time at which the expected rate stops paying [us]."""
        return use.last_us + hazard.pays_until_us(_belief(use), self._benefit(is_booting))

    def _benefit(self, is_booting: bool) -> hazard.ExpectedBenefit:
        parameters = self.arrivals.parameters
        return parameters.bridge if is_booting else parameters.invoke


def stored_key_use(rule: KeyRule, data: bytes, *, node_ready_us: int) -> KeyUse:
    """Return a key's use from its row.

    Args:
        rule: The rule that learns the use.
        data: Output of `node_use.encode`, empty if no use is stored.
        node_ready_us: Time at which the key's node last became ready. Later requests were not recorded per key [us].
    """
    use = decode(data) if data else rule.first()
    if not rule.knows(use):
        return rule.first()
    return interrupted(use) if use.is_followed and node_ready_us > use.last_us else use


def breakeven_key(worth: Worth) -> BreakevenKey:
    """Return the break-even rule for a stack's keys, with a cache function in place of the node.

    The function is billed by the millisecond. A start costs the life's fixed price, a GET, and one hit that S3 serves
    instead. A start therefore requires at least two requests.
    """
    prices, hit_usd = worth.prices, worth.hit_usd
    usd_per_s, start_usd = _MARGIN * prices.lambda_usd_per_s, prices.life_usd + prices.s3_get_usd + hit_usd
    weighed = BreakevenPrices(usd_per_s, usd_per_s, Fraction(0), run_usd=start_usd, least_s=0)
    arrivals = BreakevenUse(MICRO, 0, breakeven.breakeven(hit_usd, weighed))
    return BreakevenKey(arrivals, ever_starts=_MAX_PER_S * hit_usd >= usd_per_s)


def hazard_key(worth: Worth) -> HazardKey:
    """Return the hazard rule for a stack's keys."""
    prices = worth.prices
    lambda_usd_per_s = prices.lambda_usd_per_s + prices.life_usd / _LIFE_S
    weighed = BreakevenPrices(lambda_usd_per_s, prices.redis_usd_per_s, Fraction(0), prices.run_usd)
    least = replace(breakeven.breakeven(worth.hit_usd, weighed), boot_requests=1)  # one key alone boots no node
    return HazardKey(HazardUse(MICRO, 0, hazard.hazard(worth.hit_usd, weighed), least))


def _belief(use: KeyUse) -> Belief:
    assert use.belief is not None, "the use of another policy"
    return use.belief
