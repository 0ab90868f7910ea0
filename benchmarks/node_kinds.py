"""The bill of a policy's nodes on EC2 and on Fargate Spot, on the seven logs of `benchmarks.advice`, and idle.

Readers have no memory, a hit is an answer within 2 ms, and the policy is break-even. The best deployment of each kind
is that of `burstcache advise`.

    python -m benchmarks.node_kinds [--logs FOLDER] [--only NAME] [--hit-value-usd 1e-5]
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.advice import WITHOUT_MEMORY, advice_on, logs_of
from benchmarks.support.common import PROJECT, environment
from burstcache.core.prices import price_sheet
from burstcache_sim.bill.cost import bill
from burstcache_sim.bill.setup import Setup
from burstcache_sim.bill.usage import idle_usage
from burstcache_sim.units import HOURS_PER_MONTH, US_PER_H
from burstcache_terminal.text import table_text

KINDS = ("ec2", "fargate-spot")
IDLE = ("t4g.micro", "fargate-spot:0.5GB")
_OPTIONS = (*WITHOUT_MEMORY, "--hit-within-ms", "2", "--policy", "breakeven", "--candidates", "1")


def idle_items(node: str) -> dict[str, float]:
    """Return the items of a month of an idle stack without a relay [USD]."""
    setup = Setup(relay="none", instance_type=node)
    lines = bill(idle_usage(setup, HOURS_PER_MONTH * US_PER_H), price_sheet("today-us-east-1")).lines
    return {line.text: line.usd for line in lines}


def cells(found: dict[str, Any]) -> tuple[str, ...]:
    """Return node, bill, share of hits and net worth of the stack in an answer of `advise`."""
    ours = found["burstcache"]
    figures = (f"{ours['usd_per_month']:.2f}", f"{ours['in_memory_pct']:.1f}", f"{ours['net_usd_per_month']:.2f}")
    nodes = f"{ours['nodes']} x {ours['instance_type']}" if ours["nodes"] else "none"
    return nodes, *figures


def main() -> None:
    """Print a row per log, then the idle bills."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--logs", type=Path, metavar="FOLDER", help="with the files of NASA and ERDDAP")
    parser.add_argument("--only", metavar="NAME", help="of one log, such as pages")
    parser.add_argument("--hit-value-usd", default="1e-5", help="default: 1e-5")
    args = parser.parse_args()
    print(environment(), flush=True)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for log in logs_of(Path(folder), args.logs):
            if args.only not in (None, log.name):
                continue
            options = (*_OPTIONS, "--hit-value-usd", args.hit_value_usd)
            rows += [(log.name, *cells(advice_on(PROJECT, log, (*options, "--node-kinds", kind)))) for kind in KINDS]
            print(*rows[-2:], sep="\n", flush=True)
    print(table_text(("log", "node", "USD a month", "hits %", "net USD"), rows))
    for node in IDLE:
        items = idle_items(node)
        print(f"idle, {node}: {sum(items.values()):.3f} USD a month")
        print("\n".join(f"  {usd:.4f} {text}" for text, usd in items.items()))


if __name__ == "__main__":
    main()
