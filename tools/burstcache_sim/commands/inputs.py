"""What the options of a simulation stand for: its trace, its policy, how the system is deployed."""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

from burstcache.core.prices import THESIS, PriceSheet
from burstcache.core.worth import TierPrices
from burstcache_sim.bill.clock import Clock
from burstcache_sim.bill.setup import Setup
from burstcache_sim.bill.usage import THESIS_MEMORY_MB
from burstcache_sim.latency import FRONT_DOOR_MS, HIT_WITHIN_MS, TierLatencies
from burstcache_sim.policies.policy import Options, Policy
from burstcache_sim.policies.registry import POLICIES
from burstcache_sim.progress import lines_told
from burstcache_sim.traces.inspect import ranges_text, sample_text, sizes_text
from burstcache_sim.traces.read import Log, read_log
from burstcache_sim.traces.store import default_folder
from burstcache_sim.traces.trace import Trace
from burstcache_sim.units import UNITS_PER_USD, US_PER_H
from burstcache_terminal.text import number_text

_DEFAULTS = Setup()
_MOST_PROCESSES = 8  # more would only wait for the one that joins what they have read


def log_of(args: argparse.Namespace) -> Log:
    """Return the log that the options name, and say on standard error what of it could not be read."""
    with lines_told() as on_lines:
        log = read_log(
            args.traces,
            format_=args.format,
            names=args.fields,
            delimiter=args.delimiter,
            rank=args.rank,
            skip_bad_rows=args.skip_bad_rows,
            first_us=args.since,
            last_us=args.before,
            sample_keys=args.sample_keys,
            store=Path(args.log_store) if args.log_store else default_folder(),
            processes=min(os.cpu_count() or 1, _MOST_PROCESSES),
            dask=args.dask,
            on_lines=on_lines or (lambda lines: None),
        )
    for broken in log.broken_files:
        print(f"warning: {broken}; what comes before was read", file=sys.stderr)
    for note in filter(
        None, (log.format_note, sample_text(log.trace), sizes_text(log.unsized_keys, log.trace), ranges_text(log.trace))
    ):
        print(f"note: {note}", file=sys.stderr)
    return log


def trace_of(args: argparse.Namespace) -> Trace:
    """Return the trace that the options name; a log of one object is a trace of one key."""
    trace = trace_in(log_of(args))
    _tell_short_period(trace, getattr(args, "period_hours", None))
    return trace


def _tell_short_period(trace: Trace, period_hours: Fraction | None) -> None:
    """Say on standard error that a log does not come again before it has ended."""
    lasts_us = int(trace.arrivals_us[-1] - trace.arrivals_us[0]) if len(trace) else 0
    if period_hours is not None and period_hours * US_PER_H < lasts_us:
        lasts_h = number_text(lasts_us / US_PER_H)
        print(f"note: the log lasts {lasts_h} hours, so it is repeated back to back (--period-hours)", file=sys.stderr)


def trace_in(log: Log) -> Trace:
    """Return a log's trace; a log of one object is a trace of one key."""
    trace = log.trace
    return replace(trace, key_ids=None) if len(trace.keys) == 1 and not trace.sample else trace


def policy_options(args: argparse.Namespace) -> Options:
    """Return what the options say about the policy."""
    has_relay = getattr(args, "relay", "nlb") != "none"  # not every command has the option
    return Options(args.rate, args.sensitivity, args.overrides, args.hit_value_usd, has_relay)


def policy_of(args: argparse.Namespace, prices: TierPrices) -> Policy:
    """Return the policy that the options name; it may weigh a hit against the prices.

    Raises:
        InvalidSettingError: A value is missing or not accepted.
    """
    return POLICIES[args.policy].from_options(policy_options(args), prices)


def penalty_units_of(args: argparse.Namespace) -> int | None:
    """Return what a miss costs the optimum [cost units]; None if it has no misses."""
    if args.miss_penalty_usd is None:
        return None
    penalty_usd: Fraction = args.miss_penalty_usd
    return round(penalty_usd * UNITS_PER_USD)


def setup_of(args: argparse.Namespace, prices: PriceSheet) -> Setup:
    """Return how the system is deployed.

    Raises:
        InvalidSettingError: A value is not accepted.
        PriceMissingError: The sheet does not know the instance type or the processor.
    """
    return replace(
        cache_of(args, prices),
        front_door=args.front_door,
        readers=args.readers,
        object_bytes=args.object_bytes,
        nodes=args.nodes,
        relay_ipv4=args.relay_ipv4,
        far_readers=getattr(args, "far_readers", 0),  # not every command has the option
    )


def cache_of(args: argparse.Namespace, prices: PriceSheet) -> Setup:
    """Return the cache function and the node, whose prices a policy weighs; raises as `setup_of`."""
    is_thesis = prices.name == THESIS
    setup = Setup(
        architecture=args.architecture or prices.architecture,
        instance_type=args.instance_type or ("t2.micro" if is_thesis else _DEFAULTS.instance_type),
        cache_memory_mb=args.cache_memory_mb or (THESIS_MEMORY_MB if is_thesis else _DEFAULTS.cache_memory_mb),
    )
    for item in (f"ec2:{setup.instance_type}", f"lambda-duration:{setup.architecture}"):
        prices.row(item)  # raises now rather than after the simulation
    return setup


def clock_of(args: argparse.Namespace) -> Clock:
    """Return how long requests take, as the options say: the same in every command."""
    tiers = TierLatencies(
        s3_ms=args.s3_ms, lambda_ms=args.lambda_ms, redis_ms=args.redis_ms, network_ms=args.network_ms
    )
    usual_ms = FRONT_DOOR_MS if args.readers == "internet" else 0.0
    door_ms = usual_ms if args.front_door_ms is None else args.front_door_ms
    return Clock(tiers, door_ms, getattr(args, "hit_within_ms", HIT_WITHIN_MS))


def period_us_of(args: argparse.Namespace) -> int | None:
    """Return how long the stack stands [us]; None for the trace's duration."""
    if args.period_hours is None:
        return None
    hours: Fraction = args.period_hours
    return round(hours * US_PER_H)
