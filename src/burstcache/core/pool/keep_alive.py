"""Keep-alive of idle members: ski rental with a prediction limits how long an invocation stays idle before it returns.

Staying is billed by the millisecond. Returning costs a new invocation and a wait at the next request, which comes at an
unknown time. A member that stays until its idle time has cost as much as an invocation is 2-competitive: it never costs
more than twice the optimum. Past gaps predict better limits. The member follows these predictions within the same
bound. It risks only the amount by which past gaps cost less than twice their optimum, plus one wake per environment.

Source:
    Wang 2020, section 3.3 "Anticipatory billed duration control", for billing by the millisecond; Karlin et al.,
    "Competitive randomized algorithms for nonuniform problems", 1994: thresholds for a known distribution.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from burstcache.core.latency import FIRST_BYTE_MS
from burstcache.core.prices import PriceSheet

ONE_BURST_MS = 1.0  # shorter gaps cost nothing, and would displace informative gaps
GAPS = 256  # number of newest gaps that predict the limit
WAKE_MS = 15  # from the invocation to the first answer of a warm environment, including the handshakes
_WOKEN_TOGETHER = 12  # members that one read waits for concurrently; each is charged a share of the wait
_MAX_CREDIT = 8  # in wakes; bounds the loss from a wrong prediction after a long history
_MARGIN = 1.5  # factor over the best past limit, since the next gap is rarely exactly as long as a past gap


@dataclass(frozen=True, slots=True)
class KeepAlivePrices:
    """The prices of staying and of waking.

    Attributes:
        idle_usd_per_ms: Price of a millisecond of the member's memory.
        wake_usd: Cost of a new invocation: its price, its duration, and the value of the request's wait.
    """

    idle_usd_per_ms: float
    wake_usd: float

    @property
    def break_even_ms(self) -> float:
        """The idle time that costs as much as a wake."""
        return self.wake_usd / self.idle_usd_per_ms


def keep_alive_prices(sheet: PriceSheet, *, memory_mb: int, wait_usd: Fraction) -> KeepAlivePrices:
    """Return the prices of staying and of waking.

    Args:
        sheet: Prices of the member's region; members run on ARM.
        memory_mb: The member's memory [MB].
        wait_usd: Value of one saved wait for S3 [USD].
    """
    idle_usd_per_ms = sheet.usd("lambda-duration:arm") * memory_mb / 1024 / 1000
    latency_usd = wait_usd * WAKE_MS / FIRST_BYTE_MS["s3"] / _WOKEN_TOGETHER
    return KeepAlivePrices(
        idle_usd_per_ms=float(idle_usd_per_ms),
        wake_usd=float(sheet.usd("lambda-request") + WAKE_MS * idle_usd_per_ms + latency_usd),
    )


@dataclass(frozen=True, slots=True)
class KeepAlive:
    """The keep-alive state of a member: its gaps, which are the times between its requests.

    Attributes:
        prices: Prices of staying and of waking.
        gaps_ms: The newest gaps, at most `GAPS`, oldest first.
        credit_usd: Twice the optimal cost of all past gaps minus their actual cost, plus one wake.
    """

    prices: KeepAlivePrices
    gaps_ms: tuple[float, ...]
    credit_usd: float

    @classmethod
    def initial(cls, prices: KeepAlivePrices) -> KeepAlive:
        """Return the state of a new member, without any gaps."""
        return cls(prices, (), prices.wake_usd)

    def after(self, gap_ms: float, stayed_ms: float) -> KeepAlive:
        """Return the state after a gap.

        Args:
            gap_ms: Time from the end of a request to the beginning of the next [ms].
            stayed_ms: Time for which the member stayed or would have stayed. Less than the gap if the member returned
                before the next request [ms].
        """
        idle, wake = self.prices.idle_usd_per_ms, self.prices.wake_usd
        paid = idle * min(gap_ms, stayed_ms) + (wake if stayed_ms < gap_ms else 0.0)
        credit = self.credit_usd + 2 * min(idle * gap_ms, wake) - paid
        kept = (*self.gaps_ms[-(GAPS - 1) :], gap_ms)
        return KeepAlive(self.prices, kept, max(0.0, min(credit, _MAX_CREDIT * wake)))

    def limit_ms(self) -> float:
        """Return the longest time to stay idle [ms]."""
        spare_ms = self.credit_usd / self.prices.idle_usd_per_ms
        even_ms = self.prices.break_even_ms
        if not self.gaps_ms:
            return even_ms
        wanted_ms = _MARGIN * best_limit_ms(self.gaps_ms, self.prices)
        return min(max(wanted_ms, even_ms - spare_ms), even_ms + spare_ms)


def best_limit_ms(gaps_ms: Iterable[float], prices: KeepAlivePrices) -> float:
    """Return the cheapest limit for these gaps and one additional gap that is longer than all of them [ms]."""
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
