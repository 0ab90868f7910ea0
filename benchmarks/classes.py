"""Burstcache, however it is best deployed, against the rivals of each class of latency, on the seven logs of `advice`.

Each rival stands at its own share of hits; hits that Burstcache lacks are paid at their value. The aim: at most 1.1
times the rival and half a dollar a month. Once with readers that keep objects in their own memory, theirs and ours, and
once with readers that keep nothing. Then what control costs next to the node on NASA's log, per policy.

    python -m benchmarks.classes [--logs FOLDER] [--hit-value-usd 1e-5] [--candidates 40]
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.advice import WITHOUT_MEMORY, Log, advice_on, logs_of
from benchmarks.support.common import PROJECT, environment
from burstcache_terminal.text import table_text

_CONTROL = ("Step Functions", "Redis control, duration", "DynamoDB writes", "DynamoDB reads")


def main() -> None:
    """Print a table per log, each as soon as it is known, and the cost of control."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--logs", type=Path, metavar="FOLDER", help="with the files of NASA and ERDDAP")
    parser.add_argument("--hit-value-usd", default="1e-5", metavar="USD", help="default: 1e-5")
    parser.add_argument("--candidates", default="40", metavar="N", help="of the thesis's policy (default: 40)")
    args = parser.parse_args()
    print(environment())
    options = ("--hit-value-usd", args.hit_value_usd, "--candidates", args.candidates)
    with tempfile.TemporaryDirectory() as folder:
        logs = list(logs_of(Path(folder), args.logs))
        for title, more in (("with own memory", ()), ("readers that keep nothing", WITHOUT_MEMORY)):
            print(f"\n{title}, a hit worth {args.hit_value_usd} USD:")
            for log in logs:
                print(_against(log, (*options, *more)), flush=True)
        if args.logs:
            print(f"\ncontrol on NASA's log:\n{_control(logs[0], options)}")


def _against(log: Log, options: tuple[str, ...]) -> str:
    """Return a line per rival worth comparing with."""
    rows = []
    for one in advice_on(PROJECT, log, options)["against_rivals"]:
        usd = one["ours_usd_per_month"] + one["lacking_usd_per_month"]
        rows.append(
            (
                log.name,
                one["latency_class"],
                f"{one['rival']} ({one['rival_freshness']})",
                f"{one['rival_usd_per_month']:,.2f}, {one['rival_in_memory_pct']:.1f} %",
                one["ours"],
                f"{usd:,.2f}, {one['ours_in_memory_pct']:.1f} %",
                "met" if one["excess_usd"] <= 0 else f"{one['excess_usd']:,.2f} too much",
            )
        )
    header = ("log", "class", "rival", "USD a month, hits", "Burstcache", "with hits lacking, hits", "aim")
    return table_text(header, rows)


def _control(log: Log, options: tuple[str, ...]) -> str:
    """Return the cost of control next to the node's, for each setup without memory whose node starts and stops."""
    found = advice_on(PROJECT, log, (*options, *WITHOUT_MEMORY))
    rows = []
    for choice in (found["thesis_policy"], *found["further"]):
        amounts = {line["item"]: line["usd"] for line in choice["lines"]}
        node_usd = sum(usd for item, usd in amounts.items() if item.startswith("Redis node"))
        if not choice["policy"] or not node_usd:
            continue
        parts = [amounts.get(item, 0.0) for item in _CONTROL]
        rows.append((choice["policy"], choice["configuration"], *_share_cells(node_usd, parts)))
    header = ("policy", "setup", "node", *_CONTROL, "of the node, %", "without reads, %")
    return table_text(header, rows)


def _share_cells(node_usd: float, parts: Sequence[float]) -> list[str]:
    shares: list[Any] = [100 * sum(parts) / node_usd, 100 * sum(parts[:-1]) / node_usd]
    return [f"{usd:.5f}" for usd in (node_usd, *parts)] + [f"{share:.1f}" for share in shares]


if __name__ == "__main__":
    main()
