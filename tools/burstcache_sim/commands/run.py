"""`burstcache sim run` and `burstcache research offline|optimum`: a trace replayed and priced."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, replace
from typing import Any

from burstcache.core.errors import InvalidSettingError
from burstcache.core.express import express_rule
from burstcache.core.node_kinds import node_kind
from burstcache.core.parameters import US_PER_S
from burstcache.core.prices import THESIS, PriceSheet
from burstcache_sim.bill.scenarios import interruptions_of
from burstcache_sim.bill.spending import offline_usd, policy_prices, run_usd, thesis_setup
from burstcache_sim.commands.inputs import cache_of, penalty_units_of, policy_of, trace_of
from burstcache_sim.commands.measured import prices_of
from burstcache_sim.optimum.exact import solve
from burstcache_sim.policies.offline import offline as replay_offline
from burstcache_sim.replay import replay
from burstcache_sim.units import run_cost_units, usd
from burstcache_sim.world.delays import delayed
from burstcache_sim.world.result import RunResult
from burstcache_sim.world.scenario import Scenario
from burstcache_sim.world.timings import node_timings
from burstcache_terminal.exit_codes import ExitCode
from burstcache_terminal.text import WIDTH, rows_text, shortened_text

Fields = dict[str, Any]


def run(args: argparse.Namespace) -> ExitCode:
    """Replay a trace under a policy."""
    return _print(_run(args, prices_of(args)), as_json=args.json)


def offline(args: argparse.Namespace) -> ExitCode:
    """Replay a trace under the thesis's offline algorithm."""
    return _print(_offline(args, prices_of(args)), as_json=args.json)


def optimum(args: argparse.Namespace) -> ExitCode:
    """Find the cheapest plan for a trace."""
    return _print(_optimum(args, prices_of(args)), as_json=args.json)


def _print(found: Fields, *, as_json: bool) -> ExitCode:
    print(json.dumps(found) if as_json else _table(found))
    return ExitCode.SUCCESS


def _run(args: argparse.Namespace, prices: PriceSheet) -> Fields:
    until_us = None if args.until is None else round(args.until * US_PER_S)
    cache = cache_of(args, prices)
    policy = policy_of(args, policy_prices(prices, replace(cache, express=args.express)))
    rule = express_rule(prices, hit_value_usd=float(args.hit_value_usd or 0)) if args.express else None
    kind = node_kind(cache.instance_type)
    timings = delayed(args.delays) if args.delays else node_timings(kind, cache.node_times)
    result = replay(
        policy,
        Scenario(
            trace_of(args),
            args.nodes,
            args.node_capacity_bytes,
            until_us,
            timings,
            always_on=args.always_on,
            express=rule,
            interruptions=None if args.always_on else interruptions_of(cache, policy),
        ),
        has_log=args.json and policy.is_ticked,
    )
    counted = (
        "n n_s3 n_express n_lambda n_redis in_memory_pct lambda_ms invocations cold_starts redis_s redis_starts"
        " s3_requests lambda_us_exact redis_us_exact end_us"
    )
    found: Fields = {name: getattr(result, name) for name in counted.split()}
    found["served_pct"] = {name: round(100 * count / max(result.n, 1), 3) for name, count in _served(result)}
    is_thesis = prices.name == THESIS and cache == thesis_setup(prices)
    if is_thesis:
        found["cost_units"] = run_cost_units(result)
    found["cost_usd"] = usd(found["cost_units"]) if is_thesis else run_usd(result, prices, cache)
    found["tiers_rle"] = result.tiers_rle
    if rule is not None:
        found["express"] = asdict(result.express)
    if policy.takes_guests:
        found["guests"] = asdict(result.guests)
    if policy.is_ticked or policy.takes_guests:
        found["checks"] = result.checks
    if policy.is_ticked:
        found["log"] = result.log
    return found


def _served(result: RunResult) -> tuple[tuple[str, int], ...]:
    tiers = (("s3", result.n_s3), ("express", result.n_express), ("lambda", result.n_lambda), ("redis", result.n_redis))
    return tuple((name, count) for name, count in tiers if count)


def _arrivals_us(args: argparse.Namespace) -> list[int]:
    """Return the arrivals of a trace's only key [us]."""
    trace = trace_of(args)
    if trace.key_ids is not None:
        raise InvalidSettingError(f"{args.traces[0]} has {len(trace.keys)} keys: expected one, choose it with --rank")
    times_us: list[int] = trace.arrivals_us.tolist()
    return times_us


def _offline(args: argparse.Namespace, prices: PriceSheet) -> Fields:
    result = replay_offline(_arrivals_us(args))
    found: Fields = {
        "lambda_us": result.lambda_us,
        "lambda_runs": len(result.lambda_runs_us),
        "redis_us": result.redis_us,
        "redis_runs": len(result.redis_runs_us),
    }
    if prices.name == THESIS:
        found["cost_units"] = result.cost_units
        found["cost_units_with_requests"] = result.cost_units_with_requests
    found["cost_usd"] = usd(result.cost_units) if prices.name == THESIS else offline_usd(result, prices)
    return found | {"lam": result.lambda_runs_us, "red": result.redis_runs_us}


def _optimum(args: argparse.Namespace, prices: PriceSheet) -> Fields:
    if prices.name != THESIS:
        raise InvalidSettingError(f"--prices {prices.name}: expected {THESIS}, whose exact integers the optimum needs")
    penalty_units = penalty_units_of(args)
    result = solve(_arrivals_us(args), penalty_units)
    found: Fields = {
        "cost_units": result.cost_units,
        "cost_units_dmin_1s": result.cost_units_dmin_1s,
        "cost_units_bridged": result.cost_units_bridged,
        "cost_usd": usd(result.cost_units),
    }
    if result.objective_units is not None:
        found |= {
            "penalty_units": penalty_units,
            "objective_units": result.objective_units,
            "objective_usd": usd(result.objective_units),
            "fewest_misses": result.fewest_misses,
            "cost_units_at_fewest_misses": result.cost_units_at_fewest_misses,
        }
    return found


def _table(found: Fields) -> str:
    """Return a table with a line per field. Lists appear in JSON only."""
    names = [name for name, value in found.items() if not isinstance(value, tuple)]
    room = WIDTH - max(map(len, names)) - 2
    return rows_text([(name, shortened_text(_text(found[name]), room)) for name in names])


def _text(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name.replace('_', ' ')} {each:,}" for name, each in value.items())
    if isinstance(value, float):
        return f"{value:,.6f}"
    return f"{value:,}" if isinstance(value, int) else str(value)
