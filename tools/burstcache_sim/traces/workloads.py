"""Synthetic workloads for comparing policies: the thesis's six workloads, and a family of 25.

A workload is a trace generator with all arguments but the seed. `docs/evidence/measurements/policies.md` describes how
policies are compared.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from burstcache.core.parameters import US_PER_S
from burstcache_sim.traces.generate import diurnal, mmpp, poisson, spike, spikes_train

DAY_S = 86_400
HALF_HOUR_S = 1_800  # duration of the thesis's simulations


@dataclass(frozen=True, slots=True)
class SyntheticWorkload:
    """Random requests for one key, reproducible from a seed."""

    name: str
    generator: Callable[..., list[int]]
    arguments: tuple[float, ...]  # generator arguments after the seed
    duration_s: int | None = None  # a trace's duration (None: from the first request to the last)
    until_us: int | None = None  # the simulation horizon (None: until no event remains)
    thesis_rate: Fraction | None = None  # input of the thesis's configurator [1/min] (None: not from the thesis)

    def arrivals_us(self, seed: int) -> list[int]:
        """Return the arrivals of one trace [us]."""
        return self.generator(seed, *self.arguments)


def family(duration_s: int) -> tuple[SyntheticWorkload, ...]:
    """Return the 25 workloads.

    Poisson, MMPP and diurnal traces last `duration_s`. Spikes have lengths of their own. Poisson rates are
    evenly spaced on a logarithmic scale. Spikes are about as dense as the thesis's spikes, and three of the trains
    consist of the thesis's spikes.
    """
    rates = ("0.1", "0.25", "0.6", "1.5", "4", "10", "25", "60")
    spikes = ((10, 30), (30, 90), (60, 150), (120, 300), (300, 600), (600, 1_200))
    trains = ((20, 60, 24, 600), (50, 150, 12, 1_800), (100, 250, 8, 3_600), (300, 600, 6, 7_200))
    bursts = ((30, "0", 60, 600), (12, "0.2", 300, 1_800), (60, "1", 120, 900), (20, "0", 900, 5_400))
    return (
        *(SyntheticWorkload(f"Poisson {rate}/min", poisson, (float(rate), duration_s), duration_s) for rate in rates),
        *(SyntheticWorkload(f"spike {std} s, {n}", spike, (std, n)) for std, n in spikes),
        *(
            SyntheticWorkload(f"{count} spikes {std} s, {n}, each {spacing} s", spikes_train, (std, n, count, spacing))
            for std, n, count, spacing in trains
        ),
        *(
            SyntheticWorkload(
                f"MMPP {on}/min {busy} s, {off}/min {quiet} s",
                mmpp,
                (on, float(off), busy, quiet, duration_s),
                duration_s,
            )
            for on, off, busy, quiet in bursts
        ),
        *(
            SyntheticWorkload(f"diurnal {mean}/min", diurnal, (mean, 0.9, duration_s, duration_s), duration_s)
            for mean in (1, 4, 15)
        ),
    )


# Thesis, figures 5.7-5.14 and table A.1: half an hour of Poisson requests, and single spikes.
THESIS_SIX = (
    *(
        SyntheticWorkload(
            f"Poisson {rate}/min",
            poisson,
            (rate, HALF_HOUR_S),
            HALF_HOUR_S,
            HALF_HOUR_S * US_PER_S,
            Fraction(rate),
        )
        for rate in (3, 4)
    ),
    *(
        SyntheticWorkload(f"spike {std} s, {n}", spike, (std, n), thesis_rate=Fraction(9))
        for std, n in ((50, 150), (100, 250), (150, 300), (300, 600))
    ),
)
