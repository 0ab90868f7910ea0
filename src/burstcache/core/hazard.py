"""The hazard policy: one knob, what a hit is worth; each key's rate of requests is learned from its own gaps.

A gap is taken to be exponential with one of eighteen rates, and all that a key remembers is how likely each of them is
and has been. Pure decisions; times are integer microseconds.

Decisions are made with floats and still repeat exactly: each is a fixed sequence of additions, multiplications,
divisions and one `exp`, with every sum in ascending order of the rates (`sum` is not used: its rounding differs between
versions of Python). The compiled engine makes the same decisions by the same operations in the same order.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from math import exp

from burstcache.core.breakeven import THESIS_PRICES, BreakevenPrices
from burstcache.core.compared import Compared
from burstcache.core.errors import InvalidSettingError
from burstcache.core.parameters import US_PER_S

# From 1/32,768 to 4 a second, each twice its predecessor: the chance of a silence is the square of that at half the
# rate, so one exponential gives them all.
RATES_PER_S = tuple(2.0**power for power in range(-15, 3))
LEAST_RATE_PER_US = RATES_PER_S[0] / US_PER_S
LONGEST_IDLE_US = 2**39  # 6.4 days: nothing is kept for longer, and a longer gap is taken for one of this length

_EXPECTED_RUN_S = 600

Rates = tuple[float, ...]  # one number per rate of RATES_PER_S


@dataclass(frozen=True, slots=True)
class HazardConstants:
    """What the formulas leave open, tuned on traces that `docs/evidence/measurements/policies.md` does not use."""

    switch: float = 0.12  # how likely the rate is drawn anew for the next gap
    prior_power: float = 0.16  # at first a rate's chance falls with this power of it
    prior_gaps: float = 8.5  # how many gaps that first opinion weighs
    restart: float = 0.24  # what a new start of Redis costs, in minimum runs
    lambda_margin: float = 1.36  # a cache function must earn this many times its price …
    bridge_margin: float = 0.79  # … and this many times while Redis boots


TUNED = HazardConstants()


@dataclass(frozen=True, slots=True)
class Worth:
    """What something would earn at each rate; gains and losses apart, so that weighing them cancels nothing."""

    gains: Rates  # 0 where it loses
    losses: Rates  # 0 where it gains


NEVER = Worth(gains=(0.0,) * len(RATES_PER_S), losses=(1.0,) * len(RATES_PER_S))


@dataclass(frozen=True, slots=True)
class HazardParameters:
    """What a key's belief starts from, and what is weighed by it [USD; USD/s for what runs on]."""

    prior: Rates  # sums to 1
    prior_gaps: float
    switch: float
    boot: Worth
    stay: Worth  # of Redis
    invoke: Worth  # and keep alive, a cache function
    bridge: Worth  # the same while Redis boots
    redis_least_us: int = 60 * US_PER_S  # Redis runs at least this long: it is billed anyway


@dataclass(frozen=True, slots=True)
class Belief:
    """What the gaps of a key, or of a node that many keys share, have taught."""

    weights: Rates  # how likely each rate is for the gap that has just begun; sums to 1
    counts: Rates  # how many gaps had each rate, as far as that is known; the prior's gaps included
    gaps: int = 0


def hazard(
    hit_value_usd: Fraction, prices: BreakevenPrices = THESIS_PRICES, constants: HazardConstants = TUNED
) -> HazardParameters:
    """Return the parameters that follow from what a hit is worth.

    Args:
        hit_value_usd: What one request served from memory is worth, > 0 [USD].
        prices: What Lambda, Redis and S3 cost.
        constants: What the formulas leave open.

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
        # A boot has to earn what it costs itself within a run that is not long.
        boot=_worth(net - run_usd / _EXPECTED_RUN_S for net in net_usd_per_s),
        # At a rate that pays, a stop costs a new start with the next request, and the hits of the boot's 30 s.
        stay=_worth(
            net + (rate_per_s * (restart_usd + 30.0 * earned) if net > 0 else 0.0)
            for rate_per_s, earned, net in zip(RATES_PER_S, earned_usd_per_s, net_usd_per_s, strict=True)
        ),
        invoke=_worth(earned - invoke_usd_per_s for earned in earned_usd_per_s),
        bridge=_worth(earned - bridge_usd_per_s for earned in earned_usd_per_s),
    )


def first_belief(parameters: HazardParameters) -> Belief:
    """Return the belief after a first request, before any gap has ended."""
    return Belief(parameters.prior, tuple(parameters.prior_gaps * chance for chance in parameters.prior))


def learn(belief: Belief, gap_us: int, parameters: HazardParameters) -> Belief:
    """Return the belief after a request that ends a gap.

    The weights become those of the rates given the gap (Bayes). Then the rate switches with a small chance to one of
    those that this key has had, as often as it had them: a hidden Markov model with independent switches.

    Args:
        belief: The belief since the request before.
        gap_us: How long ago that was, at least 0 [us].
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


def weighed(belief: Belief, worth: Worth, *, idle_us: int = 0) -> tuple[float, float]:
    """Return expected gains and losses after a silence since the last request, as `Worth` has them [USD/s].

    Both are multiplied by the chance of that silence.

    Args:
        belief: The belief since the last request.
        worth: What is weighed.
        idle_us: How long ago that request was, from 0 to LONGEST_IDLE_US [us].
    """
    alive = exp(-LEAST_RATE_PER_US * idle_us)
    gains = losses = 0.0
    for weight, gain, loss in zip(belief.weights, worth.gains, worth.losses, strict=True):
        chance = weight * alive
        gains += chance * gain
        losses += chance * loss
        alive *= alive
    return gains, losses


def pays(belief: Belief, worth: Worth, *, idle_us: int = 0) -> bool:
    """Return whether gains outweigh losses, or equal them, after a silence; arguments as for `weighed`."""
    gains, losses = weighed(belief, worth, idle_us=idle_us)
    return gains >= losses


def compares(belief: Belief, worth: Worth, *, idle_us: int = 0) -> Compared:
    """Return what `pays` compares, an hour; arguments as for `weighed`."""
    gains_usd_per_s, losses_usd_per_s = weighed(belief, worth, idle_us=idle_us)
    return Compared("expected_usd_per_h", 3600 * gains_usd_per_s, 3600 * losses_usd_per_s)


def pays_until_us(belief: Belief, worth: Worth) -> int:
    """Return how long after its last request something stops to pay, if no other follows [us].

    The interval from 0 to LONGEST_IDLE_US is halved down to a microsecond; its upper end is taken not to pay. The
    answer is at least 1, also if it does not pay at all. A silence makes low rates likelier and these earn less, so
    there is one such instant apart from rounding, and the fixed midpoints make the same choice everywhere.
    """
    lower_us, upper_us = 0, LONGEST_IDLE_US
    while upper_us - lower_us > 1:
        middle_us = (lower_us + upper_us) // 2
        if pays(belief, worth, idle_us=middle_us):
            lower_us = middle_us
        else:
            upper_us = middle_us
    return upper_us


def _worth(values_usd: Iterable[float]) -> Worth:
    values = tuple(values_usd)
    return Worth(tuple(max(value, 0.0) for value in values), tuple(max(-value, 0.0) for value in values))


def _total(values: Iterable[float]) -> float:
    total = 0.0
    for value in values:
        total += value
    return total
