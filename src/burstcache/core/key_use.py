"""The use of one key under the break-even and the hazard policy: when a cache function serves it, and until when.

A value in the key's row or in the memory of its cache function, of the same form as the use of a node; here each
request is an arrival. Break-even judges a cache function as it judges a node, at its own prices. Hazard lets one that
bridges the boot of the key's node pay sooner. While the node runs the key is its guest and nobody learns its requests,
so the gap that such a run lies in teaches nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Protocol

from burstcache.core import breakeven, hazard
from burstcache.core.breakeven import BreakevenPrices
from burstcache.core.compared import Compared
from burstcache.core.hazard import Belief
from burstcache.core.node_use import BreakevenUse, HazardUse, NodeUse, UseRule, decode, interrupted
from burstcache.core.worth import MICRO, Worth

KeyUse = NodeUse


_MARGIN = 2  # a cache function under break-even has to earn twice its price: many a burst is over as it starts
_MOST_PER_S = 4  # a load that is faster than the hazard policy's fastest rate is not waited for
_LIFE_S = 120  # how long hazard takes a cache function's life to last: its start is spread over that


class KeyRule(Protocol):
    """How the use of a key is learned and judged. A value: equal rules decide alike."""

    @property
    def arrivals(self) -> UseRule:
        """The rule by which its arrivals are learned."""

    @property
    def ever_starts(self) -> bool:
        """Whether any load starts a cache function at these prices; if not, no key's use need be kept."""

    def first(self) -> KeyUse:
        """Return the use of a key without requests."""

    def knows(self, use: KeyUse) -> bool:
        """Whether a use was learned under the same policy."""

    def observe(self, use: KeyUse, at_us: int, weight: int = MICRO) -> KeyUse:
        """Return the use after a request.

        Args:
            use: The key's before it.
            at_us: When it came [us].
            weight: What a cache function saves for it, as a share of what it saves above S3 (`Worth.weight_of`): little
                if a copy in Express would have served it [millionths].
        """

    def starts(self, use: KeyUse, *, is_booting: bool) -> bool:
        """Whether a cache function starts at the newest arrival if none serves the key; never at a first one.

        Args:
            use: The key's, with that arrival.
            is_booting: Whether the key's node boots, so that there is only that time to bridge.
        """

    def start_compares(self, use: KeyUse, *, is_booting: bool) -> tuple[Compared, ...]:
        """Return what `starts` compares; all of it has to hold."""

    def lives_until_us(self, use: KeyUse, *, is_booting: bool) -> int:
        """Return when a cache function no longer pays, if no request follows [us]."""


@dataclass(frozen=True)
class BreakevenKey:
    """The use of a key under the break-even policy, which bridges by the same rule."""

    arrivals: BreakevenUse
    ever_starts: bool

    def first(self) -> KeyUse:
        """Return a use without times."""
        return self.arrivals.first()

    def knows(self, use: KeyUse) -> bool:
        """Whether a use is of the same kind."""
        return self.arrivals.knows(use)

    def observe(self, use: KeyUse, at_us: int, weight: int = MICRO) -> KeyUse:
        """Remember the time at which a whole weight has come together."""
        return self.arrivals.observe(use, at_us, weight)

    def starts(self, use: KeyUse, *, is_booting: bool) -> bool:
        """Whether enough requests came within the limit."""
        return self.arrivals.boots(use, use.last_us)

    def start_compares(self, use: KeyUse, *, is_booting: bool) -> tuple[Compared, ...]:
        """Return within how long the newest requests came, and the limit."""
        return self.arrivals.boot_compares(use, use.last_us)

    def lives_until_us(self, use: KeyUse, *, is_booting: bool) -> int:
        """Return the end of the stay after the newest request."""
        return use.last_us + self.arrivals.parameters.redis_idle_us


@dataclass(frozen=True)
class HazardKey:
    """The use of a key under the hazard policy."""

    arrivals: HazardUse

    @property
    def ever_starts(self) -> bool:
        """Whether one of the rates pays for a cache function."""
        parameters = self.arrivals.parameters
        return any((*parameters.invoke.gains, *parameters.bridge.gains))

    def first(self) -> KeyUse:
        """Return a use with the first belief."""
        return self.arrivals.first()

    def knows(self, use: KeyUse) -> bool:
        """Whether a use is of the same kind."""
        return self.arrivals.knows(use)

    def observe(self, use: KeyUse, at_us: int, weight: int = MICRO) -> KeyUse:
        """Learn the gap that a whole weight ends."""
        return self.arrivals.observe(use, at_us, weight)

    def starts(self, use: KeyUse, *, is_booting: bool) -> bool:
        """Whether the expected rate pays for a cache function."""
        belief = _belief(use)
        return belief.gaps > 0 and hazard.pays(belief, self._worth(is_booting))

    def start_compares(self, use: KeyUse, *, is_booting: bool) -> tuple[Compared, ...]:
        """Return what the expected rates earn and lose."""
        return (hazard.compares(_belief(use), self._worth(is_booting)),)

    def lives_until_us(self, use: KeyUse, *, is_booting: bool) -> int:
        """Return the instant from which the expected rate no longer pays."""
        return use.last_us + hazard.pays_until_us(_belief(use), self._worth(is_booting))

    def _worth(self, is_booting: bool) -> hazard.Worth:
        parameters = self.arrivals.parameters
        return parameters.bridge if is_booting else parameters.invoke


def stored_key_use(rule: KeyRule, data: bytes, *, node_ready_us: int) -> KeyUse:
    """Return the use of a key from its row.

    Args:
        rule: How it is learned.
        data: What `node_use.encode` wrote; empty: nothing yet.
        node_ready_us: When the key's node last became ready, since nobody has seen what came then [us].
    """
    use = decode(data) if data else rule.first()
    if not rule.knows(use):
        return rule.first()
    return interrupted(use) if use.is_followed and node_ready_us > use.last_us else use


def breakeven_key(worth: Worth) -> BreakevenKey:
    """Return the rule of the break-even policy for the keys of a stack: a cache function in the place of the node.

    It is billed by the millisecond. A start costs what a life costs apart from that, a GET and one hit, which S3 has
    instead; so it takes two requests at least.
    """
    prices, hit_usd = worth.prices, worth.hit_usd
    usd_per_s, start_usd = _MARGIN * prices.lambda_usd_per_s, prices.life_usd + prices.s3_get_usd + hit_usd
    weighed = BreakevenPrices(usd_per_s, usd_per_s, Fraction(0), run_usd=start_usd, least_s=0)
    arrivals = BreakevenUse(MICRO, 0, breakeven.breakeven(hit_usd, weighed))
    return BreakevenKey(arrivals, ever_starts=_MOST_PER_S * hit_usd >= usd_per_s)


def hazard_key(worth: Worth) -> HazardKey:
    """Return the rule of the hazard policy for the keys of a stack."""
    prices = worth.prices
    lambda_usd_per_s = prices.lambda_usd_per_s + prices.life_usd / _LIFE_S
    weighed = BreakevenPrices(lambda_usd_per_s, prices.redis_usd_per_s, Fraction(0), prices.run_usd)
    least = replace(breakeven.breakeven(worth.hit_usd, weighed), boot_requests=1)  # a key boots nothing
    return HazardKey(HazardUse(MICRO, 0, hazard.hazard(worth.hit_usd, weighed), least))


def _belief(use: KeyUse) -> Belief:
    assert use.belief is not None, "the use of another policy"
    return use.belief
