"""What variants of the break-even policy cost where they have the thesis policy's own in-memory share.

    python -m benchmarks.policy_variants [--first-seed N] [--seeds N]

Workloads, shares and matching are `benchmarks.policy_cost`'s; `docs/use/policies.md` has the variants. They run in a
machine of their own (`policy_variants_machine`), whose break-even is held to the project's.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from statistics import geometric_mean

import numpy as np
from numpy.typing import NDArray

from benchmarks.common import environment
from benchmarks.policy_variants_machine import FIELDS, UNITS_PER_USD, replay_knobs
from benchmarks.policy_variants_settings import VARIANTS, Variant
from burstcache_sim.choose.matched_cost import (
    KNOBS_USD,
    Arrivals,
    Point,
    breakeven_curve,
    matched,
    mean_rate,
    points,
    traces,
)
from burstcache_sim.policies.thesis import Thesis
from burstcache_sim.traces.workloads import DAY_S, HALF_HOUR_S, THESIS_SIX, Workload, family

FOREVER_US = 10**17
HIT_UNITS = np.array([round(knob * UNITS_PER_USD) for knob in KNOBS_USD], np.int64)


@dataclass(frozen=True, slots=True)
class Row:
    """One workload: ratios of cost to the thesis policy's, None where no knob gives its share."""

    workload: Workload
    ratios: tuple[float | None, ...]  # one per variant
    engine_ratio: float | None  # break-even's, by the project's engine
    is_equal: bool  # whether the engine's curve is the machine's but for rounding


def curve(variant: Variant, arrivals_us: Sequence[Arrivals], until_us: int | None) -> list[Point]:
    """Return share and cost of a variant at each knob."""
    table = variant.table(KNOBS_USD)
    sums = np.zeros((len(table), 2), np.int64)

    def replay(worker: int) -> None:
        mine = slice(worker, None, workers)
        part = np.zeros_like(sums[mine])
        lives, books = np.zeros((table.shape[1] + 1, FIELDS), np.int64), np.zeros((2, table.shape[1]))
        for t in arrivals_us:
            replay_knobs(t, until_us or FOREVER_US, table[mine].copy(), HIT_UNITS[mine].copy(), part, lives, books)
        sums[mine] = part

    workers = os.cpu_count() or 1
    with ThreadPoolExecutor(workers) as threads:
        list(threads.map(replay, range(workers)))
    requests, units_per_usd = sum(map(len, arrivals_us)), UNITS_PER_USD * len(arrivals_us)
    return [Point(100 * hits / requests, units / units_per_usd) for hits, units in sums.tolist()]


def measure(workload: Workload, seeds: Sequence[int]) -> Row:
    """Replay one workload under all variants."""
    arrivals_us, until_us = traces(workload, seeds), workload.until_us
    policy = Thesis.told(mean_rate(workload, arrivals_us))
    thesis = points(arrivals_us, [policy], until_us)[0]
    curves = [curve(variant, arrivals_us, until_us) for variant in VARIANTS]
    engine = breakeven_curve(arrivals_us, until_us)
    ratios = tuple(ratio(each, thesis) for each in curves)
    is_equal = np.allclose(as_array(engine), as_array(curves[0]), rtol=1e-12, atol=0)
    return Row(workload, ratios, ratio(engine, thesis), is_equal)


def ratio(points_of_variant: Sequence[Point], thesis: Point) -> float | None:
    """Return a variant's cost at the thesis policy's share, as a part of the thesis policy's."""
    match = matched(points_of_variant, thesis.share_pct)
    return match.usd / thesis.usd if match else None


def as_array(points_of_variant: Sequence[Point]) -> NDArray[np.float64]:
    """Return shares and costs as numbers."""
    return np.array([(point.share_pct, point.usd) for point in points_of_variant])


def table(title: str, rows: Sequence[Row]) -> None:
    """Print every workload, and each variant's means over the workloads whose share it reaches."""
    print(f"\n{title}: cost in parts of the thesis policy's")
    print(f"{'':<42}" + "".join(f"{i:>7}" for i in range(len(VARIANTS))))
    for row in rows:
        print(f"{row.workload.name:<42}" + "".join(f"{each:7.3f}" if each else f"{'-':>7}" for each in row.ratios))
    print(f"\n{'':<42}{'mean':>7}{'worst':>7}{'rows':>6}{'break-even on these':>21}{'better':>8}{'worse':>7}")
    for i, variant in enumerate(VARIANTS):
        print(f"{i:>2} {variant.name:<39}" + summary([(row.ratios[0], row.ratios[i]) for row in rows]))


def summary(pairs: Sequence[tuple[float | None, float | None]]) -> str:
    """Return what the pairs of ratios, break-even's and a variant's, come to; better and worse are by 1 % or more."""
    found = [(usual, other) for usual, other in pairs if usual and other]
    others = [other for _, other in found]
    better = sum(other <= 0.99 * usual for usual, other in found)
    worse = sum(other >= 1.01 * usual for usual, other in found)
    usual_mean = geometric_mean(usual for usual, _ in found)
    return f"{geometric_mean(others):7.3f}{max(others):7.3f}{len(found):6}{usual_mean:21.3f}{better:8}{worse:7}"


def check(rows: Sequence[Row]) -> None:
    """Print whether the machine's break-even is the project's."""
    pairs = [(row.ratios[0], row.engine_ratio) for row in rows]
    machine, engine = (geometric_mean(pair[i] for pair in pairs if all(pair)) for i in (0, 1))
    equal = sum(row.is_equal for row in rows)
    print(f"break-even in the project's engine {engine:.6f}, in this machine {machine:.6f};", end=" ")
    print(f"{equal} of {len(rows)} curves are equal at all {len(KNOBS_USD)} knobs")


def main() -> None:
    """Print all tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--first-seed", type=int, default=41, help="default: 41; nothing was chosen on 41 to 50")
    parser.add_argument("--seeds", type=int, default=10, help="traces per workload (default: 10)")
    given = parser.parse_args()
    begun_s = time.perf_counter()
    seeds = range(given.first_seed, given.first_seed + given.seeds)
    print(f"{environment()}; seeds {seeds[0]} to {seeds[-1]}")
    for title, workloads in (
        ("The thesis's six workloads", THESIS_SIX),
        ("25 workloads, half an hour as in the thesis", family(HALF_HOUR_S)),
        ("25 workloads, a day", family(DAY_S)),
    ):
        rows = [measure(workload, seeds) for workload in workloads]
        table(title, rows)
        check(rows)
    print(f"\n{time.perf_counter() - begun_s:.0f} s")


if __name__ == "__main__":
    main()
