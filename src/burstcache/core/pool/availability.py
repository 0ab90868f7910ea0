"""The availability of slices when Lambda reclaims members: InfiniCache's formulas 1 to 3.

A `Reclaims` is a distribution: the probability that 0, 1, 2, … members lose their memory in an interval. Chunks are
placed on members at random, so the number of chunks that a slice loses is hypergeometrically distributed.

Source:
    Wang 2020, section 4.3, formulas 1 to 3; section 4.1 for the distributions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from math import comb, exp, lgamma, log

from burstcache.core.errors import InvalidSettingError

_NEGLIGIBLE = 1e-12  # lower probabilities are left out of sums


@dataclass(frozen=True, slots=True)
class Reclaims:
    """The distribution of the number of members that are reclaimed in an interval.

    Attributes:
        members: Number of members.
        probabilities: Probability of each number of reclaimed members. Missing numbers are (nearly) impossible.
    """

    members: int
    probabilities: Mapping[int, float]

    @property
    def mean(self) -> float:
        """The mean number of reclaimed members."""
        return sum(count * probability for count, probability in self.probabilities.items())

    def after(self, times: int) -> Reclaims:
        """Return the distribution over `times` consecutive intervals.

        A member that is reclaimed twice counts twice, so losses over long intervals are overestimated, never
        underestimated.
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
        """Return the distribution over this interval and another."""
        return Reclaims(self.members, self._sum(self.probabilities, other.probabilities))

    def of_both_copies(self) -> Reclaims:
        """Return the distribution of the number of members that lose both of their environments.

        If r of N members lose one environment, each of these members also loses its other environment with probability
        r / N. An event that empties the whole pool therefore leaves no replica.
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
    """Return the distribution of independent reclaims, as InfiniCache observed in October, December and January."""
    if not mean:
        return Reclaims(members, {0: 1.0})
    counts = range(members + 1)
    likely = {count: exp(-mean + count * log(mean) - lgamma(count + 1)) for count in counts}
    return _normal(members, likely)


def zipf(exponent: float, members: int) -> Reclaims:
    """Return the distribution of reclaims in bursts, as InfiniCache observed in August, September and November.

    The probability of r reclaimed members is proportional to (r + 1) to the power of -`exponent`. Only this reading
    reproduces the paper's 0.0039 and 0.11 % per minute at the paper's exponents.
    """
    return _normal(members, {count: (count + 1) ** -exponent for count in range(members + 1)})


def measured(intervals: Mapping[int, float], prior: Reclaims, prior_intervals: int) -> Reclaims:
    """Combine measurements with a prior. The weight of the prior fades as measurements accumulate.

    Args:
        intervals: Number of intervals, by the number of members that were reclaimed in each.
        prior: Distribution for one interval before any measurement.
        prior_intervals: Weight of the prior [intervals].

    Raises:
        InvalidSettingError: More members were reclaimed than the pool has.
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
    """Return the probability that a slice loses exactly `lost` of its chunks: p_i of formula 1."""
    rest = chunks - lost
    if rest > members - reclaimed:
        return 0.0
    return comb(reclaimed, lost) * comb(members - reclaimed, rest) / comb(members, chunks)


def slice_lost(*, members: int, reclaimed: int, chunks: int, parity: int) -> float:
    """Return the probability that a slice loses more chunks than its parity: P(r) of formula 1."""
    if reclaimed <= parity:
        return 0.0
    lost = range(parity + 1, min(reclaimed, chunks) + 1)
    return sum(chunks_lost(i, members=members, reclaimed=reclaimed, chunks=chunks) for i in lost)


def loss(reclaims: Reclaims, *, chunks: int, parity: int) -> float:
    """Return the probability that a slice is lost in the interval: P_l of formula 2."""
    members = reclaims.members
    return sum(
        probability * slice_lost(members=members, reclaimed=count, chunks=chunks, parity=parity)
        for count, probability in reclaims.probabilities.items()
    )


def loss_approximation(reclaims: Reclaims, *, chunks: int, parity: int) -> float:
    """Return the loss by formula 3, which counts only slices that lose exactly one chunk too many."""
    members, one_too_many = reclaims.members, parity + 1
    return sum(
        probability * chunks_lost(one_too_many, members=members, reclaimed=count, chunks=chunks)
        for count, probability in reclaims.probabilities.items()
        if count >= one_too_many
    )


def _normal(members: int, likely: Mapping[int, float]) -> Reclaims:
    total = sum(likely.values())
    return Reclaims(members, {count: p / total for count, p in likely.items() if p / total > _NEGLIGIBLE})
