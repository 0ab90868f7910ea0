"""What a policy with one knob costs at the thesis policy's own in-memory share.

    python -m benchmarks.policy_cost [--policy NAME] [--first-seed N] [--seeds N] [--without-optimum]

The thesis policy gets each workload's mean rate, the other one nothing but its knob;
`docs/evidence/measurements/policies.md` has the definitions. Ratios are to the thesis policy, costs USD per trace at
the thesis's prices. "Ratio" mixes two neighbouring knobs, "hull" any two.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from statistics import geometric_mean, mean

from benchmarks.support.common import environment
from burstcache_sim.choose.matched_cost import (
    Arrivals,
    Point,
    clairvoyant_usd,
    hull_usd,
    matched,
    mean_rate,
    memoryless_usd,
    points,
    traces,
    worth_curve,
)
from burstcache_sim.policies.policy import WorthPolicy
from burstcache_sim.policies.registry import WORTH_POLICIES
from burstcache_sim.policies.thesis import SENSITIVITY, Thesis
from burstcache_sim.traces.generate import poisson
from burstcache_sim.traces.workloads import (
    DAY_S,
    HALF_HOUR_S,
    THESIS_SIX,
    SyntheticWorkload,
    family,
)

SENSITIVITIES = (2, 3, 4, 5)
AIM = 0.72
DEFAULT_RATE = Fraction(9)
HEADER = f"{'workload':<42}{'rate':>7}{'share %':>9}{'thesis':>10}{'policy':>12}{'ratio':>7}{'hull':>7}{'knob':>10}"


@dataclass(frozen=True, slots=True)
class Measured:
    """One workload: its traces and the policy's curve over the knob."""

    workload: SyntheticWorkload
    arrivals_us: list[Arrivals]
    curve: list[Point]

    @property
    def rate(self) -> Fraction:
        """The rate that the thesis policy gets [1/min]."""
        return mean_rate(self.workload, self.arrivals_us)

    def thesis(self, rate: Fraction, sensitivity: int = SENSITIVITY) -> Point:
        """Return share and cost of the thesis policy."""
        policy = Thesis.at_rate(rate, sensitivity)
        return points(self.arrivals_us, [policy], self.workload.until_us)[0]

    def ratio(self, rate: Fraction, sensitivity: int = SENSITIVITY) -> float | None:
        """Return the ratio of the costs; None if the thesis policy's share is 0 or no knob gives it."""
        thesis = self.thesis(rate, sensitivity)
        match = matched(self.curve, thesis.share_pct) if thesis.share_pct else None
        return match.usd / thesis.usd if match else None


def measure(policy: type[WorthPolicy], workloads: Sequence[SyntheticWorkload], seeds: Sequence[int]) -> list[Measured]:
    """Make the traces and the curves."""
    made = [(workload, traces(workload, seeds)) for workload in workloads]
    return [Measured(workload, t, worth_curve(policy, t, workload.until_us)) for workload, t in made]


def table(title: str, rows: Sequence[Measured], *, with_optimum: bool) -> None:
    """Print every workload, and the mean."""
    print(f"\n{title}\n{HEADER}{'optimum':>9}{'online':>8}" if with_optimum else f"\n{title}\n{HEADER}")
    ratios, hulls, sums_usd = [], [], [0.0, 0.0]
    for row in rows:
        thesis = row.thesis(row.rate)
        match, hull = matched(row.curve, thesis.share_pct), hull_usd(row.curve, thesis.share_pct)
        if match is None or hull is None:
            print(f"{row.workload.name:<42} no knob gives {thesis.share_pct:.2f} %")
            continue
        ratios.append(match.usd / thesis.usd)
        hulls.append(hull / thesis.usd)
        sums_usd = [sums_usd[0] + thesis.usd, sums_usd[1] + match.usd]
        bounds = _bounds(row, thesis) if with_optimum else ""
        print(
            f"{row.workload.name:<42}{float(row.rate):7.2f}{thesis.share_pct:9.2f}{thesis.usd:10.5f}{match.usd:12.5f}"
            f"{ratios[-1]:7.3f}{hulls[-1]:7.3f}{match.knob_usd:10.1e}{bounds}"
        )
    print(
        f"{len(ratios)} of {len(rows)}: geometric mean {geometric_mean(ratios):.3f}, arithmetic {mean(ratios):.3f},"
        f" ratio of sums {sums_usd[1] / sums_usd[0]:.3f}, worst {max(ratios):.3f};"
        f" above {AIM}: {sum(ratio > AIM for ratio in ratios)}; hull: geometric mean {geometric_mean(hulls):.3f},"
        f" worst {max(hulls):.3f}"
    )


def _bounds(row: Measured, thesis: Point) -> str:
    """Return the two lower bounds at the same share, as ratios to the thesis policy's cost."""
    text = f"{clairvoyant_usd(row.arrivals_us, thesis.share_pct) / thesis.usd:9.3f}"
    if row.workload.generator is not poisson:
        return text + f"{'-':>8}"
    return text + f"{memoryless_usd(row.workload.arguments[1], thesis.share_pct) / thesis.usd:8.3f}"


def other_tellings(title: str, rows: Sequence[Measured]) -> None:
    """Print the geometric mean for other sensitivities and rates of the thesis policy."""
    print(f"\n{title}: geometric means, thesis policy told something else")
    tellings = {"mean rate": [row.rate for row in rows], "9 (default)": [DEFAULT_RATE for _ in rows]}
    if all(row.workload.thesis_rate for row in rows):
        tellings["as in the thesis"] = [row.workload.thesis_rate or DEFAULT_RATE for row in rows]
    print(f"{'rate':<18}" + "".join(f"{f'sensitivity {s}':>20}" for s in SENSITIVITIES))
    for name, rates in tellings.items():
        cells = []
        for sensitivity in SENSITIVITIES:
            each = [row.ratio(rate, sensitivity) for row, rate in zip(rows, rates, strict=True)]
            found = [ratio for ratio in each if ratio is not None]
            cells.append(f"{f'{geometric_mean(found):.3f} ({len(found)})':>20}")
        print(f"{name:<18}" + "".join(cells))


def main(policies: Mapping[str, type[WorthPolicy]] = WORTH_POLICIES) -> None:
    """Print all tables for one of the policies, by default the first."""
    usual = next(iter(policies))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--policy", choices=list(policies), default=usual, help=f"default: {usual}")
    parser.add_argument("--first-seed", type=int, default=1, help="default: 1")
    parser.add_argument("--seeds", type=int, default=20, help="traces per workload (default: 20)")
    parser.add_argument("--without-optimum", action="store_true", help="leave out the bounds: they take longest")
    given = parser.parse_args()
    seeds = range(given.first_seed, given.first_seed + given.seeds)
    print(f"{environment()}; {given.policy}, seeds {seeds[0]} to {seeds[-1]}")
    for title, workloads in (
        ("The thesis's six workloads", THESIS_SIX),
        ("25 workloads, half an hour as in the thesis", family(HALF_HOUR_S)),
        ("25 workloads, a day", family(DAY_S)),
    ):
        rows = measure(policies[given.policy], workloads, seeds)
        table(title, rows, with_optimum=not given.without_optimum)
        other_tellings(title, rows)


if __name__ == "__main__":
    main()
