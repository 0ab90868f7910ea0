"""`burstcache sim bill TRACE…` itemises what a run is billed, `compare` sets it beside what else one could buy."""

from __future__ import annotations

import argparse
import json
from fractions import Fraction
from typing import Any

from burstcache.core.parameters import US_PER_S
from burstcache.core.prices import PriceSheet, price_sheet
from burstcache_sim.bill.comparison import HOURS_PER_MONTH, compare, demand_for, own_bill
from burstcache_sim.bill.spending import weighed
from burstcache_sim.bill.usage import US_PER_H, Setup
from burstcache_sim.commands.options import add_policy_options, add_trace_options, policy_of, trace_of
from burstcache_sim.commands.setup_options import add_setup_options, period_us_of, setup_of
from burstcache_sim.policies.policy import Policy
from burstcache_sim.replay import replay
from burstcache_sim.report.bills import bill_lines, bill_table, compared_fields, comparison_table
from burstcache_sim.traces.trace import Trace
from burstcache_sim.world.scenario import Scenario


def add_parser(subparsers: Any) -> None:
    """Add both simulations and their options."""
    _add_common(subparsers.add_parser("bill", help="itemise what a run would be billed"))
    compare_parser = subparsers.add_parser("compare", help="set a run beside what one could buy instead")
    _add_common(compare_parser)
    compare_parser.add_argument(
        "--against", action="append", default=[], metavar="NAME", help="only this competitor (may be repeated)"
    )


def run(args: argparse.Namespace) -> int:
    """Simulate, bill, print."""
    prices = price_sheet(args.prices)
    setup = setup_of(args, prices)
    trace = trace_of(args)
    policy = policy_of(args, weighed(prices, setup))
    period_us = period_us_of(args)
    if args.sim_command == "bill":
        print(_bill(args, trace, policy, prices, setup, period_us))
    else:
        compared = compare(
            trace,
            policy,
            prices,
            setup,
            period_us=period_us,
            against=tuple(args.against),
            only_cache=args.only_cache,
        )
        as_json = args.json
        print(json.dumps([compared_fields(system) for system in compared]) if as_json else comparison_table(compared))
    return 0


def _add_common(parser: argparse.ArgumentParser) -> None:
    add_trace_options(parser)
    add_policy_options(parser)
    add_setup_options(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")


def _bill(
    args: argparse.Namespace,
    trace: Trace,
    policy: Policy,
    prices: PriceSheet,
    setup: Setup,
    period_us: int | None,
) -> str:
    result = replay(policy, Scenario(trace, setup.nodes))
    demand = demand_for(result, trace, setup, period_us)
    billed = own_bill(result, demand, prices, setup, only_cache=args.only_cache)
    per_month = Fraction(HOURS_PER_MONTH * US_PER_H, demand.period_us or 1)
    if not args.json:
        served = f"{result.n} requests, {result.in_memory_pct:.2f} % from memory"
        return f"{served}, in {demand.period_us / US_PER_S:.0f} s\n{bill_table(billed, per_month)}"
    found = {
        "n": result.n,
        "in_memory_pct": result.in_memory_pct,
        "period_s": demand.period_us / US_PER_S,
        "prices": prices.name,
        "usd": billed.usd,
        "fixed_usd": float(billed.fixed_usd_exact),
        "usd_per_month": float(billed.usd_exact * per_month),
        "lines": bill_lines(billed),
    }
    return json.dumps(found)
