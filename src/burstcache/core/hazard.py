"""The hazard policy, with one parameter: the value of a hit. It learns request rates from the gaps between requests.

The model treats each gap as exponentially distributed with one of eighteen rates. For each key it stores the
probability of each rate, for the current gap and over past gaps. All functions are pure. Times are integer
microseconds.

Decisions use floats but are reproducible: each is a fixed sequence of additions, multiplications, divisions and one
`exp`. Sums run in ascending order of the rates and do not use `sum`, because its rounding differs between versions of
Python. The compiled engine performs the same operations in the same order.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from math import exp

from burstcache.core.breakeven import THESIS_PRICES, BreakevenPrices
from burstcache.core.comparison import Comparison
from burstcache.core.errors import InvalidSettingError
from burstcache.core.parameters import US_PER_S

# From 1/32,768 to 4 per second, each rate twice the previous one. The probability of an idle time is the square of its
# probability at half the rate, so a single exponential yields all probabilities.
RATES_PER_S = tuple(2.0**power for power in range(-15, 3))
LEAST_RATE_PER_US = RATES_PER_S[0] / US_PER_S
LONGEST_IDLE_US = 2**39  # 6.4 days: no tier is kept for longer, and longer gaps are cut to this length

_EXPECTED_RUN_S = 600

Rates = tuple[float, ...]  # one number per rate of RATES_PER_S


@dataclass(frozen=True, slots=True)
class HazardConstants:
    """The formulas' free constants, tuned on traces that `docs/evidence/measurements/policies.md` does not use."""

    switch: float = 0.12  # probability that the next gap has a newly drawn rate
    prior_power: float = 0.16  # the prior of a rate falls with this power of the rate
    prior_gaps: float = 8.5  # weight of the prior [gaps]
    restart: float = 0.24  # cost of restarting Redis [minimum runs]
    lambda_margin: float = 1.36  # a cache function must earn this many times its price …
    bridge_margin: float = 0.79  # … and this many times while Redis boots


TUNED = HazardConstants()


@dataclass(frozen=True, slots=True)
class ExpectedBenefit:
    """Expected gains and losses per request rate, kept separate to avoid cancellation in their weighted sums."""

    gains: Rates  # 0 at rates that lose
    losses: Rates  # 0 at rates that gain


@dataclass(frozen=True, slots=True)
class HazardParameters:
    """A key's prior belief, and the benefits that the policy weighs [USD; USD/s for continued operation]."""

    prior: Rates  # sums to 1
    prior_gaps: float
    switch: float
    boot: ExpectedBenefit
    stay: ExpectedBenefit  # keeping Redis running
    invoke: ExpectedBenefit  # starting a cache function, and keeping it alive
    bridge: ExpectedBenefit  # the same while Redis boots
    redis_least_us: int = 60 * US_PER_S  # minimum run of Redis, which is billed in any case


@dataclass(frozen=True, slots=True)
class Belief:
    """The belief about the request rate of a key, or of a node shared by many keys, learned from gaps."""

    weights: Rates  # probability of each rate for the gap that has just begun; sums to 1
    counts: Rates  # expected number of gaps at each rate, including the prior's gaps
    gaps: int = 0


def hazard(
    hit_value_usd: Fraction, prices: BreakevenPrices = THESIS_PRICES, constants: HazardConstants = TUNED
) -> HazardParameters:
    """Derive the parameters from the value of a hit.

    Args:
        hit_value_usd: Value of one request served from memory, > 0 [USD].
        prices: Prices of Lambda, Redis and S3.
        constants: Free constants of the formulas.

    Raises:
        InvalidSettingError: The value is not above 0.

    Source:
        `docs/understand/simulation.md`, "The hazard policy".
    """
    if hit_value_usd <= 0:
        raise InvalidSettingError(f"hit value {float(hit_value_usd):g} USD: expected an amount above 0")
    hit_usd = float(hit_value_usd + prices.s3_get_usd)
    earned_usd_per_s = [rate_per_s * hit_usd for rate_per_s in RATES_PER_S]
    redis_usd_per_s = float(prices.redis_usd_per_s)
    invoke_usd_per_s = constants.lambda_margin * float(prices.lambda_usd_per_s)
    bridge_usd_per_s = constants.bridge_margin * float(prices.lambda_usd_per_s)
    net_usd_per_s = [earned - redis_usd_per_s for earned in earned_usd_per_s]
    run_usd = float(prices.run_usd)
    restart_usd = constants.restart * 60 * redis_usd_per_s + run_usd
    powers = [rate_per_s**-constants.prior_power for rate_per_s in RATES_PER_S]
    whole = _total(powers)
    return HazardParameters(
        prior=tuple(power / whole for power in powers),
        prior_gaps=constants.prior_gaps,
        switch=constants.switch,
        # A boot must recover its own cost within a run of moderate length.
        boot=_benefit(net - run_usd / _EXPECTED_RUN_S for net in net_usd_per_s),
        # At a rate that pays, a stop costs a restart at the next request and the hits missed during 30 s of booting.
        stay=_benefit(
            net + (rate_per_s * (restart_usd + 30.0 * earned) if net > 0 else 0.0)
            for rate_per_s, earned, net in zip(RATES_PER_S, earned_usd_per_s, net_usd_per_s, strict=True)
        ),
        invoke=_benefit(earned - invoke_usd_per_s for earned in earned_usd_per_s),
        bridge=_benefit(earned - bridge_usd_per_s for earned in earned_usd_per_s),
    )


def first_belief(parameters: HazardParameters) -> Belief:
    """Return the prior: the belief after the first request, before any gap has ended."""
    return Belief(parameters.prior, tuple(parameters.prior_gaps * chance for chance in parameters.prior))


def learn(belief: Belief, gap_us: int, parameters: HazardParameters) -> Belief:
    """Update the belief with a request that ends a gap.

    The weights become the posterior probabilities of the rates given the gap (Bayes). Then the rate switches, with a
    small probability, to one of the key's earlier rates in proportion to their counts. This is a hidden Markov model
    with independent switches.

    Args:
        belief: The belief before this request.
        gap_us: Time since the previous request, at least 0 [us].
        parameters: The policy's parameters.
    """
    alive = exp(-LEAST_RATE_PER_US * min(gap_us, LONGEST_IDLE_US))
    likelihoods = []
    for weight, rate_per_s in zip(belief.weights, RATES_PER_S, strict=True):
        likelihoods.append(weight * alive * rate_per_s)
        alive *= alive
    scale = 1.0 / _total(likelihoods)
    gaps = belief.gaps + 1
    stays, switches = 1.0 - parameters.switch, parameters.switch / (parameters.prior_gaps + gaps)
    weights, counts = [], []
    for likelihood, count in zip(likelihoods, belief.counts, strict=True):
        posterior = likelihood * scale
        counts.append(count + posterior)
        weights.append(stays * posterior + switches * counts[-1])
    return Belief(tuple(weights), tuple(counts), gaps)


def gain_and_loss(belief: Belief, benefit: ExpectedBenefit, *, idle_us: int = 0) -> tuple[float, float]:
    """Return the expected gain and loss after an idle time, each multiplied by that idle time's probability [USD/s].

    Args:
        belief: The belief since the last request.
        benefit: The benefit to weigh.
        idle_us: Time since the last request, from 0 to LONGEST_IDLE_US [us].
    """
    alive = exp(-LEAST_RATE_PER_US * idle_us)
    gains = losses = 0.0
    for weight, gain, loss in zip(belief.weights, benefit.gains, benefit.losses, strict=True):
        chance = weight * alive
        gains += chance * gain
        losses += chance * loss
        alive *= alive
    return gains, losses


def pays(belief: Belief, benefit: ExpectedBenefit, *, idle_us: int = 0) -> bool:
    """Return whether the expected gain after an idle time is at least the loss. Arguments as for `gain_and_loss`."""
    gains, losses = gain_and_loss(belief, benefit, idle_us=idle_us)
    return gains >= losses


def compare(belief: Belief, benefit: ExpectedBenefit, *, idle_us: int = 0) -> Comparison:
    """Return the comparison that `pays` makes, per hour. Arguments as for `gain_and_loss`."""
    gains_usd_per_s, losses_usd_per_s = gain_and_loss(belief, benefit, idle_us=idle_us)
    return Comparison("expected_usd_per_h", 3600 * gains_usd_per_s, 3600 * losses_usd_per_s)


def pays_until_us(belief: Belief, benefit: ExpectedBenefit) -> int:
    """Return the time after the last request at which a benefit stops paying, if no request follows [us].

    Bisects the interval from 0 to LONGEST_IDLE_US down to a microsecond, and assumes that its upper end does not pay.
    The result is at least 1, even if the benefit never pays. Idle time raises the probability of low rates, which earn
    less, so apart from rounding there is only one such time. Fixed midpoints make the result the same on every
    platform.
    """
    lower_us, upper_us = 0, LONGEST_IDLE_US
    while upper_us - lower_us > 1:
        middle_us = (lower_us + upper_us) // 2
        if pays(belief, benefit, idle_us=middle_us):
            lower_us = middle_us
        else:
            upper_us = middle_us
    return upper_us


def _benefit(values_usd: Iterable[float]) -> ExpectedBenefit:
    values = tuple(values_usd)
    return ExpectedBenefit(tuple(max(value, 0.0) for value in values), tuple(max(-value, 0.0) for value in values))


def _total(values: Iterable[float]) -> float:
    total = 0.0
    for value in values:
        total += value
    return total
