"""The `burstcache sim bill` and `compare` commands: an itemised bill, and a comparison with competitors."""

from __future__ import annotations

import argparse
import json
from fractions import Fraction

from burstcache.core.parameters import US_PER_S
from burstcache_sim.bill.comparison import Billing
from burstcache_sim.bill.comparison import compare as compare_with_others
from burstcache_sim.bill.sampled import scale_to_log
from burstcache_sim.bill.scenarios import scenario_of
from burstcache_sim.bill.spending import policy_prices
from burstcache_sim.commands.inputs import period_us_of, policy_of, setup_of, trace_of
from burstcache_sim.commands.measured import prices_of
from burstcache_sim.replay import replay
from burstcache_sim.report.bills import bill_lines, bill_table, compared_fields, comparison_table
from burstcache_terminal.exit_codes import ExitCode
from burstcache_terminal.text import count_text, duration_text


def bill(args: argparse.Namespace) -> ExitCode:
    """Print a run's itemised AWS bill."""
    prices = prices_of(args)
    setup = setup_of(args, prices)
    trace = trace_of(args)
    policy = policy_of(args, policy_prices(prices, setup))
    result = replay(policy, scenario_of(trace, setup, policy))
    billing = Billing(prices, setup, period_us_of(args), args.only_cache)
    demand = billing.demand(trace)
    result = scale_to_log(result, trace, demand.requests)
    billed = billing.bill(result, demand)
    month = billing.month(result, demand)
    if args.json:
        fields = {
            "n": result.n,
            "in_memory_pct": result.in_memory_pct,
            "period_s": demand.period_us / US_PER_S,
            "prices": prices.name,
            "usd": billed.usd,
            "fixed_usd": float(billed.fixed_usd_exact),
            "usd_per_month": month.usd,
            "lines": bill_lines(billed),
        }
        print(json.dumps(fields))
    else:
        served = f"{count_text(result.n, 'request')}, {result.in_memory_pct:.2f} % from memory"
        print(f"{served}, in {duration_text(demand.period_us / US_PER_S)}\n{bill_table(billed, month)}")
    return ExitCode.SUCCESS


def compare(args: argparse.Namespace) -> ExitCode:
    """Print the cost of a run, and each competitor's cost for the same traffic."""
    prices = prices_of(args)
    setup = setup_of(args, prices)
    trace = trace_of(args)
    compared = compare_with_others(
        policy_of(args, policy_prices(prices, setup)),
        trace,
        Billing(
            prices,
            setup,
            period_us_of(args),
            args.only_cache,
            args.hit_value_usd or Fraction(0),
            same_objects=args.same_objects,
        ),
        against=tuple(args.against),
    )
    print(json.dumps([compared_fields(system) for system in compared]) if args.json else comparison_table(compared))
    return ExitCode.SUCCESS
