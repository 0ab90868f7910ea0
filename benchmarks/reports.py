"""Reports of requests, their cost and the cost of their delay: the rule of `core.batching` on logs.

Reports of one reader, and of five that take turns at random, are sent every ten seconds or gathered by the rule, and
decide in the readable simulator when they arrive. Break-even and hazard, a `t4g.nano`, no relay. In a cell: reports
[USD], what hits save less node, control, loads and reports [USD], the share of memory, boots.

    python -m benchmarks.reports [--logs FOLDER] [--hit-values-usd 1e-6,1e-5,1e-4]
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from benchmarks.support.common import environment
from burstcache.core.batching import MIN_BATCH_AGE_US
from burstcache.core.policy import EVENT_LATENESS_US
from burstcache.core.prices import price_sheet
from burstcache.core.recency import is_repeat, should_record
from burstcache.core.worth import tier_prices
from burstcache_sim.bill.cost import bill
from burstcache_sim.bill.setup import Setup
from burstcache_sim.bill.usage import live_usage
from burstcache_sim.policies.node_use import Breakeven, Hazard, weight_of
from burstcache_sim.traces.generate import zipf
from burstcache_sim.traces.read import read_trace
from burstcache_sim.traces.trace import Trace
from burstcache_sim.world.result import RunResult, Tier
from burstcache_sim.world.scenario import Scenario
from burstcache_sim.world.simulate import simulate
from burstcache_sim.world.world import Key, World
from burstcache_terminal.text import table_text

SHEET = price_sheet("today-us-east-1")
SETUP = Setup(instance_type="t4g.nano", relay="none")
SETUP_OF_NODE = replace(SETUP, always_on_nodes=SETUP.nodes)  # nothing is reported there
PRICES = tier_prices(SHEET, node_type=SETUP.instance_type, cache_memory_mb=SETUP.cache_memory_mb)
READERS = 5
_LATENESS_US = MIN_BATCH_AGE_US + EVENT_LATENESS_US


@dataclass
class Reader:
    """What has gathered at one reader."""

    since_us: int = 0
    weight: int = 0
    waiting: list[tuple[int, Key]] = field(default_factory=list)


class Told:
    """A policy by use that hears of requests when reports arrive; a report arrives with the next request of all."""

    def __init__(self, policy: Any, readers: int, gathers: bool) -> None:
        self.policy = policy
        self.window = policy.window
        self.readers = [Reader() for _ in range(readers)]
        self.gathers = gathers
        self.random = Random(7)
        self.reports = self.told = 0

    def memory(self) -> Any:
        return self.policy.memory()

    def check_node(self, *args: Any) -> None:
        self.policy.check_node(*args)

    def handle_ready(self, *args: Any) -> None:
        self.policy.handle_ready(*args)

    def handle_request(self, world: World, key: Key, at_us: int, tier: Tier) -> None:
        for reader in self.readers:
            self._send(world, reader, at_us)
        if tier == "R" or key.node.since_us is not None:
            self.policy.handle_request(world, key, at_us, tier)
            return
        reader = self.random.choice(self.readers)
        if not reader.waiting:
            reader.since_us, reader.weight = at_us, 0
        reader.weight += weight_of(self.policy.parameters.worth, key.size_bytes)
        reader.waiting.append((at_us, key))
        self.told += 1
        self._send(world, reader, at_us)

    def _send(self, world: World, reader: Reader, now_us: int) -> None:
        rule, age_us = self.policy.parameters.batch, now_us - reader.since_us
        is_due = rule.is_due(age_us=age_us, weight=reader.weight) if self.gathers else age_us >= MIN_BATCH_AGE_US
        if not reader.waiting or not is_due:
            return
        waiting, reader.waiting = reader.waiting, []
        self.reports += 1
        for at_us, key in waiting:
            self._learn(world, key, at_us, now_us)

    def _learn(self, world: World, key: Key, at_us: int, now_us: int) -> None:
        memory, node, rule = self.policy._memory_of(key.node), key.node, self.policy.parameters.node
        seen_us = key.memory.seen_us
        if node.since_us is None and is_repeat(seen_us, at_us):
            memory.use = rule.observe(memory.use, at_us, weight_of(self.policy.parameters.worth, key.size_bytes))
            if node.is_off and rule.boots(memory.use, max(at_us, now_us - _LATENESS_US)):
                world.boot(node, now_us)
        if should_record(seen_us, at_us, is_booting=node.ready_us is not None):
            key.memory.seen_us = at_us
            memory.seen.pop(key.index, None)
            memory.seen[key.index] = key


def logs_in(folder: Path | None) -> Iterator[tuple[str, Trace]]:
    """Return the logs: one that is drawn, and the two of a folder."""
    arrivals_us, key_ids = zipf(1, 10, 24 * 3600, 100, exponent=0)
    yield "100 keys", Trace(np.array(arrivals_us), np.array(key_ids, np.int32), None, tuple(map(str, range(100))))
    if folder is not None:
        for name, path in (("NASA", "nasa-http-1995-08-01.csv.gz"), ("ERDDAP", "erddap-2024-05-12_20.csv.gz")):
            yield name, read_trace([str(folder / path)])


def net_usd(result: RunResult, policy: Any, reports: int) -> float:
    """Return the savings of hits less the costs that grow with the load [USD]."""
    never_told = replace(result, guests=replace(result.guests, told=0))
    usage = live_usage(never_told, SETUP_OF_NODE, period_us=0, busy_s=0)
    control_usd = bill(replace(usage, s3_gets=result.guests.loads), SHEET).usd
    hit_usd = float(policy.parameters.worth.hit_usd)
    return result.n_redis * hit_usd - control_usd - reports * float(PRICES.report_usd)


def cells(policy: Any, trace: Trace) -> Iterator[str]:
    """Return the results of each way of reporting."""
    for readers in (1, READERS):
        for gathers in (False, True):
            told = Told(policy, readers, gathers)
            result = simulate(told, Scenario(trace))
            usd = told.reports * float(PRICES.report_usd)
            net, share = net_usd(result, policy, told.reports), result.in_memory_pct
            yield f"{usd:.4f} {net:+.3f} ({share:.1f} %) {result.redis_starts}"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--logs", type=Path, metavar="FOLDER", help="with the files of NASA and ERDDAP")
    parser.add_argument("--hit-values-usd", default="1e-6,1e-5,1e-4", metavar="USD,…")
    args = parser.parse_args()
    print(environment())
    rows = []
    for name, trace in logs_in(args.logs):
        for value in args.hit_values_usd.split(","):
            for kind in (Breakeven, Hazard):
                policy = replace(kind.worth(Fraction(value), PRICES), has_relay=False)
                rows.append([name, value, kind.name, *cells(policy, trace)])
    header = ("log", "v", "policy", *(f"{n}, {how}" for n in (1, READERS) for how in ("every 10 s", "gathered")))
    print(table_text(header, rows))


if __name__ == "__main__":
    main()
