"""Compiled beliefs of the hazard policy: the float operations of `core.hazard`, in the same order."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from burstcache.core.hazard import LEAST_RATE_PER_US, LONGEST_IDLE_US, RATES_PER_S, HazardParameters
from burstcache_sim.engine.compiled import inlined, uncounted

Floats = NDArray[np.float64]

RATES, LEAST_RATE = len(RATES_PER_S), RATES_PER_S[0]


class Worths(NamedTuple):
    """`core.hazard.ExpectedBenefit` as arrays, with one element per rate."""

    gains: Floats
    losses: Floats


class Tables(NamedTuple):
    """`core.hazard.HazardParameters` as arrays."""

    prior: Floats
    prior_gaps: float
    switch: float
    boot: Worths
    stay: Worths
    invoke: Worths
    bridge: Worths
    least_us: int


def tables_of(p: HazardParameters) -> Tables:
    """Convert a policy's parameters to arrays."""
    boot, stay, invoke, bridge = (
        Worths(np.array(worth.gains), np.array(worth.losses)) for worth in (p.boot, p.stay, p.invoke, p.bridge)
    )
    return Tables(np.array(p.prior), p.prior_gaps, p.switch, boot, stay, invoke, bridge, p.redis_least_us)


@inlined
def begin(weights: Floats, counts: Floats, tables: Tables) -> None:
    """Initialise a belief like `core.hazard.first_belief`."""
    for j in range(RATES):
        weights[j], counts[j] = tables.prior[j], tables.prior_gaps * tables.prior[j]


@inlined
def learn(weights: Floats, counts: Floats, gaps: int, tables: Tables, gap_us: int) -> None:
    """Update a belief with its `gaps`-th gap, like `core.hazard.learn`."""
    alive, rate_per_s, total = math.exp(-LEAST_RATE_PER_US * min(gap_us, LONGEST_IDLE_US)), LEAST_RATE, 0.0
    for j in range(RATES):
        likelihood = weights[j] * alive * rate_per_s
        weights[j] = likelihood
        total += likelihood
        alive *= alive
        rate_per_s += rate_per_s
    scale = 1.0 / total
    stays, switches = 1.0 - tables.switch, tables.switch / (tables.prior_gaps + gaps)
    for j in range(RATES):
        posterior = weights[j] * scale
        counts[j] += posterior
        weights[j] = stays * posterior + switches * counts[j]


@inlined
def pays_by(weights: Floats, worth: Worths, idle_us: int, factor: float) -> bool:
    """Return whether expected gains after an idle time are at least `factor` times the losses."""
    alive = math.exp(-LEAST_RATE_PER_US * idle_us)
    gain = loss = 0.0
    for j in range(RATES):
        chance = weights[j] * alive
        gain += chance * worth.gains[j]
        loss += chance * worth.losses[j]
        alive *= alive
    return gain >= factor * loss


@uncounted
def pays_until_us(weights: Floats, worth: Worths) -> int:
    """Compute `core.hazard.pays_until_us`."""
    lower_us, upper_us = 0, LONGEST_IDLE_US
    while upper_us - lower_us > 1:
        middle_us = (lower_us + upper_us) >> 1
        if pays_by(weights, worth, middle_us, 1.0):
            lower_us = middle_us
        else:
            upper_us = middle_us
    return upper_us
