"""`burstcache sim tune TRACE…`: a search for a policy's parameters, given a hit ratio or a bill."""

from __future__ import annotations

import argparse
import json

from burstcache.core.errors import BurstcacheError
from burstcache_sim.bill.demand import stored_objects
from burstcache_sim.bill.spending import policy_prices
from burstcache_sim.choose.tune.candidates import space_of
from burstcache_sim.choose.tune.front import Tried
from burstcache_sim.choose.tune.hold_out import hold_out
from burstcache_sim.choose.tune.objectives import CheapestAt, MostHitsFor
from burstcache_sim.choose.tune.outcome import Found, found_fields, found_text, write_csv
from burstcache_sim.choose.tune.search import tune
from burstcache_sim.choose.tune.workload import Workload, workload_of
from burstcache_sim.commands.inputs import period_us_of, setup_of, trace_of
from burstcache_sim.commands.measured import prices_of
from burstcache_sim.output import check_target
from burstcache_sim.policies.registry import POLICIES
from burstcache_terminal.exit_codes import ExitCode


class ObjectiveMissedError(BurstcacheError):
    """No candidate of a search meets the objective."""


def run(args: argparse.Namespace) -> ExitCode:
    """Search for the best parameters and print them."""
    prices = prices_of(args)
    setup = setup_of(args, prices)
    objective, aim = _objective(args)
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
    space = space_of(POLICIES[args.policy], policy_prices(prices, setup))
    tuned = tune(workload, objective, space, candidates=args.candidates)
    if args.csv:
        write_csv(args.csv, tuned.front)
    if tuned.best is None:
        raise ObjectiveMissedError(f"{aim} cannot be met: {_reached(objective, tuned.closest, workload)}")
    held_out = hold_out(workload, lambda _: objective, space, candidates=args.candidates)
    found = Found(args.policy, aim, workload, tuned, tuned.best, held_out)
    print(json.dumps(found_fields(found)) if args.json else found_text(found))
    return ExitCode.SUCCESS


def _objective(args: argparse.Namespace) -> tuple[CheapestAt | MostHitsFor, str]:
    if args.in_memory_pct is not None:
        return CheapestAt(args.in_memory_pct), f"{args.in_memory_pct:g} % from memory"
    return MostHitsFor(args.usd_per_month), f"{args.usd_per_month:g} USD a month"


def _reached(objective: CheapestAt | MostHitsFor, closest: Tried, workload: Workload) -> str:
    reached = f"{closest.in_memory_pct:.2f} % for {closest.usd_per_month:.2f} USD a month"
    with_ = f"with {closest.text}" if closest.text else "with the template's parameters"
    if isinstance(objective, MostHitsFor):
        return f"the cheapest candidate has {reached}, {with_}"
    first = workload.redirected + (stored_objects(workload.kept) if len(workload.kept) else 0)
    most_pct = 100 * (1 - first / workload.demand.requests)
    large = " and all requests for objects too large for a cache" if workload.redirected else ""
    bound = f"; the limit is {most_pct:.2f} %, because first requests for objects{large} always go to S3"
    return f"the best candidate has {reached}, {with_}{bound if objective.in_memory_pct > most_pct else ''}"
