"""`burstcache sim tune TRACE…` searches a policy's parameters for a share of hits or for a bill."""

from __future__ import annotations

import argparse
import csv
import json
from collections.abc import Sequence
from dataclasses import asdict
from math import isfinite
from typing import Any

from burstcache.core.parameters import US_PER_S, Parameters
from burstcache.core.prices import PriceSheet, price_sheet
from burstcache.errors import BurstcacheError, InvalidSettingError
from burstcache.sim.commands.options import add_trace_options, trace_of
from burstcache.sim.commands.setup_options import add_setup_options, period_us_of, setup_of, weighed_in
from burstcache.sim.costs.usage import Setup
from burstcache.sim.report.table import aligned
from burstcache.sim.tune.candidates import BreakevenSpace, Space, ThesisSpace
from burstcache.sim.tune.search import CheapestAt, MostHitsFor, Tried, Tuned, Workload, spread, tune, workload_of

_ROWS = 20  # of the front, at a terminal
_COLUMNS = ("in_memory_pct", "usd_per_month", "n_s3", "n_lambda", "n_redis", "parameters")


class ObjectiveMissedError(BurstcacheError):
    """No candidate of a search meets its objective."""


def add_parser(subparsers: Any) -> None:
    """Add the simulation and its options."""
    parser = subparsers.add_parser("tune", help="search a policy's parameters for a log")
    add_trace_options(parser)
    objective = parser.add_mutually_exclusive_group(required=True)
    objective.add_argument("--in-memory-pct", metavar="PCT", help="cheapest with at least so many hits, such as 95")
    objective.add_argument("--usd-per-month", metavar="USD", help="most hits for at most this bill, such as 50")
    parser.add_argument("--policy", choices=["thesis", "breakeven"], default="thesis", help="default: thesis")
    parser.add_argument("--candidates", type=int, metavar="N", help="try about so many (default: what takes seconds)")
    add_setup_options(parser)
    parser.add_argument("--node-capacity-bytes", type=int, metavar="BYTES", help="what a node holds (default: all)")
    parser.add_argument("--csv", metavar="FILE", help="write the Pareto front, one row a candidate")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    """Search and print."""
    prices = price_sheet(args.prices)
    setup = setup_of(args, prices)
    objective, aim = _objective(args)
    for option in ("candidates", "node_capacity_bytes"):
        if (value := getattr(args, option)) is not None and value < 1:
            raise InvalidSettingError(f"--{option.replace('_', '-')} {value}: expected at least 1")
    period_us = period_us_of(args)
    workload = workload_of(
        trace_of(args),
        prices,
        setup,
        period_us=period_us,
        only_cache=args.only_cache,
        capacity_bytes=args.node_capacity_bytes,
    )
    tuned = tune(workload, objective, space_of(args.policy, prices, setup), candidates=args.candidates)
    if args.csv:
        _write_csv(args.csv, tuned.front)
    if tuned.best is None:
        raise ObjectiveMissedError(f"{aim} cannot be met: {_reached(objective, tuned.closest)}")
    print(json.dumps(_fields(args.policy, workload, tuned)) if args.json else _text(args.policy, aim, workload, tuned))
    return 0


def space_of(policy: str, prices: PriceSheet, setup: Setup) -> Space:
    """Return where a policy's parameters are searched."""
    return ThesisSpace() if policy == "thesis" else BreakevenSpace(weighed_in(prices, setup))


def tried_fields(tried: Tried) -> dict[str, Any]:
    """Return a candidate for JSON."""
    return {
        "in_memory_pct": tried.in_memory_pct,
        "usd_per_month": tried.usd_per_month,
        "n_s3": tried.result.n_s3,
        "n_lambda": tried.result.n_lambda,
        "n_redis": tried.result.n_redis,
        "text": tried.text,
        "parameters": asdict(tried.parameters),
    }


def front_table(front: Sequence[Tried], name: str) -> str:
    """Return some candidates of a front, evenly spread, as lines."""
    header = ("memory %", "USD a month", "S3", "Lambda", "Redis", name)
    return aligned(header, [_cells(tried) for tried in spread(front, _ROWS)], right=range(5))


def _objective(args: argparse.Namespace) -> tuple[CheapestAt | MostHitsFor, str]:
    if args.in_memory_pct is not None:
        pct = _number("--in-memory-pct", args.in_memory_pct, 100, "a number from 0 to 100")
        return CheapestAt(pct), f"{pct:g} % from memory"
    usd = _number("--usd-per-month", args.usd_per_month, float("inf"), "an amount of at least 0")
    return MostHitsFor(usd), f"{usd:g} USD a month"


def _number(option: str, text: str, most: float, expected: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1
    if not (isfinite(value) and 0 <= value <= most):
        raise InvalidSettingError(f"{option} {text!r}: expected {expected}")
    return value


def _reached(objective: CheapestAt | MostHitsFor, closest: Tried) -> str:
    reached = f"{closest.in_memory_pct:.2f} % for {closest.usd_per_month:.2f} USD a month ({closest.text})"
    return f"the {'most' if isinstance(objective, CheapestAt) else 'cheapest'} that was found is {reached}"


def _cells(tried: Tried) -> tuple[str, ...]:
    result = tried.result
    counts = [f"{n}" for n in (result.n_s3, result.n_lambda, result.n_redis)]
    return f"{tried.in_memory_pct:.2f}", f"{tried.usd_per_month:.2f}", *counts, tried.text


def _text(policy: str, aim: str, workload: Workload, tuned: Tuned) -> str:
    best, demand = tuned.best or tuned.closest, workload.demand
    name = "PolicyOverrides" if isinstance(best.parameters, Parameters) else "--hit-value-usd"
    hours = demand.period_us / US_PER_S / 3600
    what = f"{demand.requests} requests, {demand.objects} object{'s' if demand.objects > 1 else ''}, {hours:.4g} h"
    lines = [
        f"{what}; a month is this log {float(workload.repeats_per_month):.4g} times",
        f"{_tried(tuned)} of the {policy} policy tried; best for {aim}:",
        "",
        f"  {best.in_memory_pct:.2f} % from memory, {best.usd_per_month:.2f} USD a month",
        f"  {name}: {best.text}" if best.text else f"  {name} empty: what the template has",
    ]
    if policy == "breakeven":
        lines.append("  not in the live system yet: only the simulator has the break-even policy")
    lines += ["", f"Pareto front ({len(tuned.front)} candidates that nothing beats in cost and hits):"]
    return "\n".join([*lines, front_table(tuned.front, name)])


def _tried(tuned: Tuned) -> str:
    before = f" (and {tuned.candidates_on_part:,} on its first part)" if tuned.candidates_on_part else ""
    return f"{tuned.candidates:,} candidates{before}"


def _fields(policy: str, workload: Workload, tuned: Tuned) -> dict[str, Any]:
    return {
        "policy": policy,
        "is_live": policy == "thesis",
        "prices": workload.prices.name,
        "n": workload.demand.requests,
        "period_s": workload.demand.period_us / US_PER_S,
        "candidates": tuned.candidates,
        "best": None if tuned.best is None else tried_fields(tuned.best),
        "front": [tried_fields(tried) for tried in tuned.front],
    }


def _write_csv(path: str, front: Sequence[Tried]) -> None:
    try:
        with open(path, "w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(_COLUMNS)
            for tried in front:
                r = tried.result
                row = tried.in_memory_pct, tried.usd_per_month, r.n_s3, r.n_lambda, r.n_redis, tried.text
                writer.writerow(row)
    except OSError as error:
        raise InvalidSettingError(f"--csv {path}: expected a file that can be written ({error.strerror})") from error
