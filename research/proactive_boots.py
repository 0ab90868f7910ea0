"""Proactive boots against reactive boots and hindsight, by log.

    python -m research.proactive_boots [--logs FOLDER] [--hit-value-usd 1e-5]

Logs: those of `benchmarks.advice`, a fortnight with two holidays, and elastic's if FOLDER has `apache_logs`
(github.com/elastic/examples). A log shorter than two weeks repeats until then, a day at least from one repetition to
the next. One node of each kind without a relay and without readers' memory, a reader's report 10 s after the request
that decides. Figures are per month: hits won, money lost (node, control, S3), and the net worth of both.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

import numpy as np

from benchmarks.advice import logs_of
from benchmarks.support.common import environment
from burstcache.core.node_kinds import node_kind
from burstcache.core.parameters import US_PER_S
from burstcache.core.prices import price_sheet
from burstcache.core.worth import TierPrices, tier_prices
from burstcache_sim.bill.nodes import node_capacity_bytes
from burstcache_sim.traces.read import read_trace
from burstcache_sim.traces.trace import Trace
from burstcache_sim.units import HOURS_PER_MONTH, US_PER_H
from burstcache_sim.world.result import RunResult
from burstcache_sim.world.scenario import Scenario
from burstcache_sim.world.simulate import simulate
from burstcache_sim.world.timings import begun_late, node_timings
from burstcache_terminal.text import table_text
from research.policies.proactive import DAY_US, Hindsight, Proactive

NODES = ("t4g.nano", "fargate-spot:0.5GB")
LASTS_US = 14 * DAY_US
MAX_BYTES = 4 << 20  # larger objects are not kept whole
REPORTS_LATE_US = 10 * US_PER_S
SHEET = price_sheet("today-us-east-1")


@dataclass(frozen=True, slots=True)
class Gain:
    """A policy's difference to reactive boots, for a month."""

    hits: float
    lost_usd: float
    net_usd: float


def gains(trace: Trace, lasts_us: int, node: str, hit_value_usd: Fraction) -> tuple[float, Gain, Gain]:
    """Return the net worth of reactive boots [USD a month], and the gains of proactive boots and of hindsight."""
    prices = tier_prices(SHEET, node_type=node, cache_memory_mb=256)
    own = node_timings(node_kind(node))
    late = begun_late(own, starts_us=0, boots_us=REPORTS_LATE_US)
    scenario = Scenario(trace, 1, node_capacity_bytes(node), lasts_us, late)
    proactive = replace(Proactive.worth(hit_value_usd, prices), has_relay=False, boot_us=late.redis_boot_us, noted=[])
    reactive = replace(proactive, plans=False, noted=[])
    usual = simulate(reactive, scenario)
    told = Hindsight(proactive.parameters, has_relay=False, boot_us=late.redis_boot_us, begun=tuple(reactive.noted))
    months = lasts_us / US_PER_H / HOURS_PER_MONTH
    results = [simulate(policy, scenario) for policy in (proactive, told)]
    found = []
    for result in results:
        hits, lost_usd = result.n_redis - usual.n_redis, _usd(result, prices) - _usd(usual, prices)
        found.append(Gain(hits / months, lost_usd / months, (hits * float(hit_value_usd) - lost_usd) / months))
    saved_usd = usual.n_redis * float(hit_value_usd) + usual.n * float(prices.s3_get_usd) - _usd(usual, prices)
    return saved_usd / months, found[0], found[1]


def repeated(trace: Trace, lasts_us: int = LASTS_US) -> Trace:
    """Repeat a trace for as long, without objects that are not kept whole."""
    assert trace.sizes_bytes is not None
    assert trace.key_ids is not None
    is_kept = trace.sizes_bytes <= MAX_BYTES
    times_us, ids, sizes = trace.arrivals_us[is_kept], trace.key_ids[is_kept], trace.sizes_bytes[is_kept]
    period_us = -(-int(times_us[-1] - trace.arrivals_us[0] + 1) // DAY_US) * DAY_US
    turns = max(1, lasts_us // period_us)
    every_us = np.concatenate([times_us + turn * period_us for turn in range(turns)])
    return Trace(every_us, np.tile(ids, turns), np.tile(sizes, turns), trace.keys)


def fortnights(seed: int = 21, weeks: int = 4) -> Trace:
    """Draw four weeks of an office: bursts at 9:00 and 14:00 of working days, give or take a minute, and every hour.

    Two of the twenty working days are holidays, on which only the hourly job runs, of 300 requests.
    """
    random = np.random.default_rng(seed)
    holidays = random.choice([day for day in range(7 * weeks) if day % 7 < 5], 2, replace=False).tolist()
    parts = []
    for day in range(7 * weeks):
        for hour in range(24):
            starts_s = (day * 24 + hour) * 3_600 + 30 * 60 + random.normal(0, 5)
            parts.append(starts_s + np.sort(random.uniform(0, 120, 300)))
        for hour in (9, 14) if day % 7 < 5 and day not in holidays else ():
            starts_s = (day * 24 + hour) * 3_600 + random.normal(0, 60)
            parts.append(starts_s + np.sort(random.uniform(0, 1_200, 12_000)))
    times_us = np.sort((np.concatenate(parts) * US_PER_S).astype(np.int64))
    ids = (random.zipf(1.2, len(times_us)) % 400).astype(np.int32)
    return Trace(times_us, ids, np.full(len(ids), 100_000, np.int64), tuple(map(str, range(400))))


def logs(folder: Path, given: Path | None) -> Iterator[tuple[str, Trace]]:
    """Yield the logs."""
    yield "office, 4 weeks", fortnights()
    for log in logs_of(folder, given):
        yield log.name, repeated(read_trace([log.path]))
    if given and (elastic := given / "apache_logs").exists():
        yield "elastic", repeated(read_trace([str(elastic)]))


def row(name: str, trace: Trace, node: str, hit_value_usd: Fraction) -> list[str]:
    """Return a row of the table."""
    lasts_us = -(-int(trace.arrivals_us[-1] + 1) // DAY_US) * DAY_US
    saved_usd, proactive, told = gains(trace, lasts_us, node, hit_value_usd)
    cells = [name, node, f"{saved_usd:.2f}"]
    for gain in (proactive, told):
        cells += [f"{gain.hits:,.0f}", f"{gain.lost_usd:.3f}", f"{gain.net_usd:+.3f}"]
    return cells


def _usd(result: RunResult, prices: TierPrices) -> float:
    """Return the cost of node, control, reports and S3 [USD]."""
    further = max(0, result.checks - result.redis_starts)
    return float(
        result.redis_s * prices.redis_usd_per_s
        + result.redis_starts * prices.run_usd
        + further * prices.check_usd
        + result.guests.told_batches * prices.report_usd
        + result.s3_requests * prices.s3_get_usd
    )


def main() -> None:
    """Print a row per log and kind of node."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--logs", type=Path, metavar="FOLDER", help="with NASA's, ERDDAP's and elastic's logs")
    parser.add_argument("--hit-value-usd", type=Fraction, default=Fraction("1e-5"), help="default: 1e-5")
    args = parser.parse_args()
    print(environment(), flush=True)
    head = ["log", "node", "reactive", "hits won", "lost", "net", "hindsight: hits", "lost", "net"]
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name, trace in logs(Path(folder), args.logs):
            rows += [row(name, trace, node, args.hit_value_usd) for node in NODES]
            print(rows[-2], rows[-1], flush=True)
    print(table_text(head, rows))


if __name__ == "__main__":
    main()
