"""How likely a slice is lost when members are reclaimed: InfiniCache's availability, formulas 1 to 3.

A `Reclaims` says how likely it is that 0, 1, 2, … members lose their memory in a stretch of time. Chunks lie on members
at random, so the number of chunks that a slice loses is hypergeometric.

Source:
    Wang 2020, section 4.3, formulas 1 to 3; section 4.1 for the distributions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from math import comb, exp, lgamma, log

from burstcache.core.errors import InvalidSettingError

_NEGLIGIBLE = 1e-12  # probabilities below it are left out of a sum


@dataclass(frozen=True, slots=True)
class Reclaims:
    """How many of the members are reclaimed in a stretch of time.

    Attributes:
        members: How many there are.
        probabilities: By the number of reclaimed members; what is missing is (nearly) impossible.
    """

    members: int
    probabilities: Mapping[int, float]

    @property
    def mean(self) -> float:
        """The mean number of reclaimed members."""
        return sum(count * probability for count, probability in self.probabilities.items())

    def after(self, times: int) -> Reclaims:
        """Return how many are reclaimed in several of these stretches in a row.

        A member that is hit twice counts twice, which overstates long stretches rather than understating them.
        """
        total, power = {0: 1.0}, dict(self.probabilities)
        while times:
            if times & 1:
                total = self._sum(total, power)
            times >>= 1
            if times:
                power = self._sum(power, power)
        return Reclaims(self.members, total)

    def plus(self, other: Reclaims) -> Reclaims:
        """Return how many are reclaimed in this stretch and in another."""
        return Reclaims(self.members, self._sum(self.probabilities, other.probabilities))

    def of_both_copies(self) -> Reclaims:
        """Return how many members lose both of their environments.

        When r of N members lose the one, each of them loses the other with the same chance, r in N: what empties a
        whole pool at once leaves no copy.
        """
        both: dict[int, float] = {}
        for count, probability in self.probabilities.items():
            chance = count / self.members
            for lost in range(count + 1):
                each = probability * comb(count, lost) * chance**lost * (1 - chance) ** (count - lost)
                if each > _NEGLIGIBLE:
                    both[lost] = both.get(lost, 0.0) + each
        return Reclaims(self.members, both)

    def _sum(self, one: Mapping[int, float], other: Mapping[int, float]) -> dict[int, float]:
        total: dict[int, float] = {}
        for a, p in one.items():
            for b, q in other.items():
                if p * q > _NEGLIGIBLE:
                    count = min(a + b, self.members)
                    total[count] = total.get(count, 0.0) + p * q
        return total


def poisson(mean: float, members: int) -> Reclaims:
    """Return reclaims that come one by one, as InfiniCache saw them in October, December and January."""
    if not mean:
        return Reclaims(members, {0: 1.0})
    counts = range(members + 1)
    likely = {count: exp(-mean + count * log(mean) - lgamma(count + 1)) for count in counts}
    return _normal(members, likely)


def zipf(exponent: float, members: int) -> Reclaims:
    """Return reclaims that come in bursts, as InfiniCache saw them in August, September and November.

    The probability of r reclaimed members falls with (r + 1) to the power of `exponent`: this reading, and no other,
    gives the paper's 0.0039 and 0.11 % a minute at its exponents.
    """
    return _normal(members, {count: (count + 1) ** -exponent for count in range(members + 1)})


def measured(intervals: Mapping[int, int], prior: Reclaims, prior_intervals: int) -> Reclaims:
    """Return what was measured, with a prior that counts as much as some intervals: it fades as measurements gather.

    Args:
        intervals: By the number of members that were reclaimed in one interval: how often that happened.
        prior: What is believed before anything was measured, for one interval.
        prior_intervals: How much that weighs [intervals].

    Raises:
        InvalidSettingError: More members were reclaimed than there are.
    """
    members, total = prior.members, prior_intervals + sum(intervals.values())
    likely = {count: p * prior_intervals / total for count, p in prior.probabilities.items()}
    for count, times in intervals.items():
        if not 0 <= count <= members:
            raise InvalidSettingError(f"{count} reclaimed members; the pool has {members}")
        likely[count] = likely.get(count, 0.0) + times / total
    return Reclaims(members, likely)


@cache
def chunks_lost(lost: int, *, members: int, reclaimed: int, chunks: int) -> float:
    """Return how likely a slice loses that number of its chunks: p_i of formula 1."""
    rest = chunks - lost
    if rest > members - reclaimed:
        return 0.0
    return comb(reclaimed, lost) * comb(members - reclaimed, rest) / comb(members, chunks)


def slice_lost(*, members: int, reclaimed: int, chunks: int, parity: int) -> float:
    """Return how likely a slice loses more chunks than its parity: P(r) of formula 1."""
    if reclaimed <= parity:
        return 0.0
    most = min(reclaimed, chunks)
    lost = range(parity + 1, most + 1)
    return sum(chunks_lost(i, members=members, reclaimed=reclaimed, chunks=chunks) for i in lost)


def loss(reclaims: Reclaims, *, chunks: int, parity: int) -> float:
    """Return how likely a slice is lost in the stretch of time: P_l of formula 2."""
    members = reclaims.members
    return sum(
        probability * slice_lost(members=members, reclaimed=count, chunks=chunks, parity=parity)
        for count, probability in reclaims.probabilities.items()
    )


def loss_nearly(reclaims: Reclaims, *, chunks: int, parity: int) -> float:
    """Return formula 3: as if a slice never lost more than one chunk too many."""
    members, one_too_many = reclaims.members, parity + 1
    return sum(
        probability * chunks_lost(one_too_many, members=members, reclaimed=count, chunks=chunks)
        for count, probability in reclaims.probabilities.items()
        if count >= one_too_many
    )


def _normal(members: int, likely: Mapping[int, float]) -> Reclaims:
    total = sum(likely.values())
    return Reclaims(members, {count: p / total for count, p in likely.items() if p / total > _NEGLIGIBLE})
