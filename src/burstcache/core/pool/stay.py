"""How long an idle member stays before it returns: ski rental with an estimate.

To stay costs memory by the millisecond; to leave costs a new invocation at the next request, and its wait. Which is
cheaper depends on when that request comes, which nobody knows: staying for as long as an invocation costs never takes
more than twice the least. The gaps seen so far say more, and are followed as far as this bound allows: what past gaps
cost less than twice the least is a credit, and only that is risked, and one wake in an environment's life.

Source:
    Wang 2020, section 3.3 "Anticipatory billed duration control", for bills by the millisecond; Karlin et al.,
    "Competitive randomized algorithms for nonuniform problems", 1994: thresholds for a known distribution.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from burstcache.core.prices import PriceSheet
from burstcache.core.worth import WAIT_MS

ONE_BURST_MS = 1.0  # shorter gaps cost nothing, and would crowd out those that say something
GAPS = 256  # as many of the last ones are an estimate
WAKE_MS = 15  # from the invocation to the first answer of an environment that is there, the handshakes included
_WOKEN_TOGETHER = 12  # members that one read waits for at once, so each is to blame for a part of the wait
_MOST_CREDIT = 8  # wakes: a longer past is no reason for a longer mistake
_MARGIN = 1.5  # a gap that comes is seldom as long as the longest that has come


@dataclass(frozen=True, slots=True)
class StayPrices:
    """What a member weighs.

    Attributes:
        idle_usd_per_ms: A millisecond of its memory.
        wake_usd: A new invocation with its price, the time that it takes, and what the wait of a request is worth.
    """

    idle_usd_per_ms: float
    wake_usd: float

    @property
    def break_even_ms(self) -> float:
        """How long a stay costs what a wake does."""
        return self.wake_usd / self.idle_usd_per_ms


def stay_prices(sheet: PriceSheet, *, memory_mb: int, wait_usd: Fraction) -> StayPrices:
    """Return what a member weighs.

    Args:
        sheet: Prices of its region; members run on ARM.
        memory_mb: Its memory.
        wait_usd: What one saved wait for S3 is worth.
    """
    idle_usd_per_ms = sheet.usd("lambda-duration:arm") * memory_mb / 1024 / 1000
    latency_usd = wait_usd * WAKE_MS / WAIT_MS["s3"] / _WOKEN_TOGETHER
    return StayPrices(
        idle_usd_per_ms=float(idle_usd_per_ms),
        wake_usd=float(sheet.usd("lambda-request") + WAKE_MS * idle_usd_per_ms + latency_usd),
    )


@dataclass(frozen=True, slots=True)
class Stay:
    """What is known of a member's gaps, the times between its requests.

    Attributes:
        prices: What is weighed.
        gaps_ms: The last ones, at most `GAPS`, oldest first.
        credit_usd: By how much all past gaps were cheaper than twice the least that they could have cost, and a wake.
    """

    prices: StayPrices
    gaps_ms: tuple[float, ...]
    credit_usd: float

    @classmethod
    def without_experience(cls, prices: StayPrices) -> Stay:
        """Return what is known at first."""
        return cls(prices, (), prices.wake_usd)

    def after(self, gap_ms: float, stayed_ms: float) -> Stay:
        """Return what is known after a gap.

        Args:
            gap_ms: From the end of a request to the beginning of the next.
            stayed_ms: How long the member would have stayed, or has; less than the gap if it had left.
        """
        idle, wake = self.prices.idle_usd_per_ms, self.prices.wake_usd
        paid = idle * min(gap_ms, stayed_ms) + (wake if stayed_ms < gap_ms else 0.0)
        credit = self.credit_usd + 2 * min(idle * gap_ms, wake) - paid
        kept = (*self.gaps_ms[-(GAPS - 1) :], gap_ms)
        return Stay(self.prices, kept, max(0.0, min(credit, _MOST_CREDIT * wake)))

    def limit_ms(self) -> float:
        """Return for how long to stay idle, at most."""
        spare_ms = self.credit_usd / self.prices.idle_usd_per_ms
        even_ms = self.prices.break_even_ms
        if not self.gaps_ms:
            return even_ms
        wanted_ms = _MARGIN * best_limit_ms(self.gaps_ms, self.prices)
        return min(max(wanted_ms, even_ms - spare_ms), even_ms + spare_ms)


def best_limit_ms(gaps_ms: Iterable[float], prices: StayPrices) -> float:
    """Return the limit that would have been cheapest for these gaps and another one, longer than all of them."""
    gaps = sorted(gaps_ms)
    unended = len(gaps) + 1
    best_ms, least_usd = 0.0, unended * prices.wake_usd
    stayed_usd = 0.0
    for gap in gaps:
        unended -= 1
        stayed_usd += prices.idle_usd_per_ms * gap
        cost_usd = stayed_usd + unended * (prices.idle_usd_per_ms * gap + prices.wake_usd)
        if cost_usd < least_usd:
            best_ms, least_usd = gap, cost_usd
    return best_ms
