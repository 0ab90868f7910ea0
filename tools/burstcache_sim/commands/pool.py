"""`burstcache sim pool TRACE…`: a pool for large objects, its bill, and its competitors."""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from fractions import Fraction

from burstcache.core.errors import InvalidSettingError
from burstcache.core.pool.costs import MemberPrice, member_price
from burstcache.core.pool.keep_alive import keep_alive_prices
from burstcache.core.pool.redundancy import Load, UpkeepChoice, choose
from burstcache.core.pool.slices import SLICE_BYTES, Redundancy
from burstcache.core.prices import price_sheet
from burstcache_sim.bill.demand import demand_of
from burstcache_sim.bill.locality import Locality, locality_of
from burstcache_sim.bill.market import Market
from burstcache_sim.bill.pool import pool_bill, pool_use
from burstcache_sim.bill.pool_rivals import rivals
from burstcache_sim.bill.setup import Setup
from burstcache_sim.commands.inputs import trace_of
from burstcache_sim.pool.reclaims import ReclaimProcess, reclaim_process, usual
from burstcache_sim.pool.scenario import PoolScenario
from burstcache_sim.pool.world import simulate_pool
from burstcache_sim.report.pool import Pooled, pool_fields, pool_text
from burstcache_sim.units import US_PER_H
from burstcache_terminal.exit_codes import ExitCode


def run(args: argparse.Namespace) -> ExitCode:
    """Simulate the pool and print hits, losses, bill and competitors."""
    prices = price_sheet(args.prices)
    trace = trace_of(args)
    demand = demand_of(trace, object_bytes=args.object_bytes)
    locality = locality_of(trace, object_bytes=args.object_bytes, period_us=demand.period_us)
    reclaims = usual(args.members) if args.reclaims is None else reclaim_process(args.reclaims, args.members)
    price = replace(member_price(prices, args.memory_mb), billed_in_ms=args.billed_in_ms)
    choice = None if args.code or args.backup_s is not None else _choice(args, locality, price, reclaims)
    scenario = PoolScenario(
        members=args.members,
        memory_mb=args.memory_mb,
        redundancy=choice.plan.redundancy if choice else _code(args.code or "10+2"),
        warm_s=choice.plan.warm_s if choice else args.warm_s,
        backup_s=choice.plan.backup_s if choice else args.backup_s or 0,
        reclaims=reclaims,
        pays_within_s=None if args.at_first_read else args.pays_within_s,
        whole_objects=args.whole_objects,
        stay=keep_alive_prices(prices, memory_mb=args.memory_mb, wait_usd=Fraction(args.hit_value_usd)),
        billed_in_ms=args.billed_in_ms,
        seed=args.seed,
    )
    pool_run = simulate_pool(trace, scenario, object_bytes=args.object_bytes)
    billed = pool_bill(pool_use(pool_run, has_fargate_hub=args.hub == "fargate"), prices)
    market = Market(
        demand=demand, locality=locality, prices=prices, setup=Setup(), usd_per_hit=Fraction(args.hit_value_usd)
    )
    others = rivals(market, 100 * pool_run.hit_share)
    pooled = Pooled(pool_run, billed, tuple(others), choice.reasons if choice else ())
    print(json.dumps(pool_fields(pooled)) if args.json else pool_text(pooled))
    return ExitCode.SUCCESS


def _choice(args: argparse.Namespace, locality: Locality, price: MemberPrice, reclaims: ReclaimProcess) -> UpkeepChoice:
    """Return the redundancy that the live system would choose after a day of these reclaims."""
    sizes = locality.sizes_bytes.clip(max=SLICE_BYTES)
    slices = -(-locality.sizes_bytes // SLICE_BYTES)
    hours = Fraction(max(locality.period_us, 1), US_PER_H)
    load = Load(
        reads_per_h=int(slices[locality.ids].sum()) / hours,
        writes_per_h=int(slices.sum()) / hours,
        stored_slices=int(slices.sum()),
        slice_bytes=max(1, int(sizes.mean())),
    )
    return choose(args.members, load, price, {60: reclaims.day()}, target=args.availability)


def _code(text: str) -> Redundancy:
    data, plus, parity = text.partition("+")
    if not (plus and data.isdecimal() and parity.isdecimal()):
        raise InvalidSettingError(f"--code {text}: expected chunks of data and of parity, such as 10+2")
    return Redundancy(int(data), int(parity))
