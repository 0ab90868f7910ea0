"""`burstcache sim tune TRACE…` searches a policy's parameters for a share of hits or for a bill."""

from __future__ import annotations

import argparse
import json
from math import isfinite
from typing import Any

from burstcache.core.errors import BurstcacheError, InvalidSettingError
from burstcache.core.prices import price_sheet
from burstcache_sim.bill.demand import stored_objects
from burstcache_sim.bill.spending import weighed
from burstcache_sim.choose.tune.candidates import space_of
from burstcache_sim.choose.tune.front import Tried
from burstcache_sim.choose.tune.hold_out import hold_out
from burstcache_sim.choose.tune.objectives import CheapestAt, MostHitsFor
from burstcache_sim.choose.tune.outcome import Found, found_fields, found_text, write_csv
from burstcache_sim.choose.tune.search import tune
from burstcache_sim.choose.tune.workload import Workload, workload_of
from burstcache_sim.commands.options import add_trace_options, trace_of
from burstcache_sim.commands.setup_options import add_setup_options, period_us_of, setup_of
from burstcache_sim.output import check_target
from burstcache_sim.policies.registry import DEFAULT, POLICIES


class ObjectiveMissedError(BurstcacheError):
    """No candidate of a search meets its objective."""


def add_parser(subparsers: Any) -> None:
    """Add the simulation and its options."""
    parser = subparsers.add_parser("tune", help="search a policy's parameters for a log")
    add_trace_options(parser)
    objective = parser.add_mutually_exclusive_group(required=True)
    objective.add_argument("--in-memory-pct", metavar="PCT", help="cheapest with at least so many hits, such as 95")
    objective.add_argument("--usd-per-month", metavar="USD", help="most hits for at most this bill, such as 50")
    parser.add_argument("--policy", choices=list(POLICIES), default=DEFAULT, help=f"default: {DEFAULT}")
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
    if args.csv:
        check_target("--csv", args.csv)
    workload = workload_of(
        trace_of(args),
        prices,
        setup,
        period_us=period_us,
        only_cache=args.only_cache,
        capacity_bytes=args.node_capacity_bytes,
    )
    space = space_of(POLICIES[args.policy], weighed(prices, setup))
    tuned = tune(workload, objective, space, candidates=args.candidates)
    if args.csv:
        write_csv(args.csv, tuned.front)
    if tuned.best is None:
        raise ObjectiveMissedError(f"{aim} cannot be met: {_reached(objective, tuned.closest, workload)}")
    held_out = hold_out(workload, lambda _: objective, space, candidates=args.candidates)
    found = Found(args.policy, aim, workload, tuned, tuned.best, held_out)
    print(json.dumps(found_fields(found)) if args.json else found_text(found))
    return 0


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


def _reached(objective: CheapestAt | MostHitsFor, closest: Tried, workload: Workload) -> str:
    reached = f"{closest.in_memory_pct:.2f} % for {closest.usd_per_month:.2f} USD a month"
    with_ = f"with {closest.text}" if closest.text else "with what the template has"
    if isinstance(objective, MostHitsFor):
        return f"the cheapest that was found is {reached}, {with_}"
    first = workload.redirected + (stored_objects(workload.kept) if len(workload.kept) else 0)
    most_pct = 100 * (1 - first / workload.demand.requests)
    large = " and what is too large for a cache" if workload.redirected else ""
    bound = f"; nothing serves more than {most_pct:.2f} %, because an object's first request{large} always goes to S3"
    return f"the most that was found is {reached}, {with_}{bound if objective.in_memory_pct > most_pct else ''}"
