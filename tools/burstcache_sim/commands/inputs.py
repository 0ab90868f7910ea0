"""Inputs of a simulation, built from command-line options: trace, policy, deployment and clock."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

from burstcache.core.node_kinds import node_items
from burstcache.core.prices import THESIS, PriceSheet
from burstcache.core.worth import TierPrices
from burstcache_sim.bill.latency_model import LatencyModel
from burstcache_sim.bill.setup import Setup
from burstcache_sim.bill.usage import THESIS_MEMORY_MB
from burstcache_sim.commands.measured import measured_of, node_times_of, with_transfers
from burstcache_sim.latency import FRONT_DOOR_MS, HIT_WITHIN_MS, TODAYS_LATENCIES
from burstcache_sim.policies.policy import Options, Policy
from burstcache_sim.policies.registry import POLICIES
from burstcache_sim.progress import line_counter
from burstcache_sim.traces.inspect import ranges_text, sample_text, sizes_text
from burstcache_sim.traces.read import RequestLog, read_log
from burstcache_sim.traces.store import default_folder
from burstcache_sim.traces.trace import Trace
from burstcache_sim.units import UNITS_PER_USD, US_PER_H
from burstcache_terminal.text import number_text

_DEFAULTS = Setup()
_MOST_PROCESSES = 8  # more processes would only wait for the process that merges their results


def log_of(args: argparse.Namespace) -> RequestLog:
    """Read the log that the options name, and print warnings and notes about it to standard error."""
    with line_counter() as on_lines:
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
        print(f"warning: {broken}; the lines before it were read", file=sys.stderr)
    for note in filter(
        None, (log.format_note, sample_text(log.trace), sizes_text(log.unsized_keys, log.trace), ranges_text(log.trace))
    ):
        print(f"note: {note}", file=sys.stderr)
    return log


def trace_of(args: argparse.Namespace) -> Trace:
    """Return the trace that the options name. A log of one object becomes a trace of one key."""
    trace = trace_in(log_of(args))
    _warn_short_period(trace, getattr(args, "period_hours", None))
    return trace


def _warn_short_period(trace: Trace, period_hours: Fraction | None) -> None:
    """Print a note to standard error if the log lasts longer than its period."""
    lasts_us = int(trace.arrivals_us[-1] - trace.arrivals_us[0]) if len(trace) else 0
    if period_hours is not None and period_hours * US_PER_H < lasts_us:
        lasts_h = number_text(lasts_us / US_PER_H)
        print(f"note: the log lasts {lasts_h} hours, so it is repeated back to back (--period-hours)", file=sys.stderr)


def name_of(traces: Sequence[str]) -> str:
    """Return a log's name for a title: its first file, and the number of further files."""
    name = Path(traces[0]).name or traces[0]
    return f"{name} and {len(traces) - 1} more" if len(traces) > 1 else name


def trace_in(log: RequestLog) -> Trace:
    """Return a log's trace. A log of one object becomes a trace of one key."""
    trace = log.trace
    return replace(trace, key_ids=None) if len(trace.keys) == 1 and not trace.sample else trace


def policy_options(args: argparse.Namespace) -> Options:
    """Return the options of the policy."""
    has_relay = getattr(args, "relay", "nlb") != "none"  # not every command has the option
    return Options(args.rate, args.sensitivity, args.overrides, args.hit_value_usd, has_relay)


def policy_of(args: argparse.Namespace, prices: TierPrices) -> Policy:
    """Build the policy that the options name, with parameters derived from the prices.

    Raises:
        InvalidSettingError: A value is missing or invalid.
    """
    return POLICIES[args.policy].from_options(policy_options(args), prices)


def penalty_units_of(args: argparse.Namespace) -> int | None:
    """Return the cost of a miss in the optimum [cost units], or None if misses are not allowed."""
    if args.miss_penalty_usd is None:
        return None
    penalty_usd: Fraction = args.miss_penalty_usd
    return round(penalty_usd * UNITS_PER_USD)


def setup_of(args: argparse.Namespace, prices: PriceSheet) -> Setup:
    """Build the deployment from the options.

    Raises:
        InvalidSettingError: A value is invalid.
        PriceMissingError: The sheet has no price for the instance type or the processor.
    """
    return replace(
        cache_of(args, prices),
        front_door=args.front_door,
        readers=args.readers,
        object_bytes=args.object_bytes,
        nodes=args.nodes,
        relay_ipv4=args.relay_ipv4,
        origin_events=args.origin_events,
        far_readers=getattr(args, "far_readers", 0),  # not every command has the option
    )


def cache_of(args: argparse.Namespace, prices: PriceSheet) -> Setup:
    """Build a deployment from the options of cache function and node only. Raises the errors of `setup_of`."""
    is_thesis = prices.name == THESIS
    setup = Setup(
        architecture=args.architecture or prices.architecture,
        instance_type=args.instance_type or ("t2.micro" if is_thesis else _DEFAULTS.instance_type),
        cache_memory_mb=args.cache_memory_mb or (THESIS_MEMORY_MB if is_thesis else _DEFAULTS.cache_memory_mb),
        node_times=node_times_of(args),
        interruptions_per_h=args.interruptions_per_hour,
        interruption_seed=args.interruption_seed,
    )
    for item in (*dict(node_items(setup.instance_type)), f"lambda-duration:{setup.architecture}"):
        prices.row(item)  # fail before the simulation
    return setup


def clock_of(args: argparse.Namespace) -> LatencyModel:
    """Build the latency model from the options."""
    measured = measured_of(args)
    given = {name: getattr(args, name) for name in ("s3_ms", "lambda_ms", "redis_ms", "network_ms")}
    found = {name: float(measured[name]) for name in given if name in measured}
    tiers = replace(TODAYS_LATENCIES, **found | {name: ms for name, ms in given.items() if ms is not None})
    default_ms = FRONT_DOOR_MS if args.readers == "internet" else 0.0
    door_ms = default_ms if args.front_door_ms is None else args.front_door_ms
    return with_transfers(LatencyModel(tiers, door_ms, getattr(args, "hit_within_ms", HIT_WITHIN_MS)), measured)


def period_us_of(args: argparse.Namespace) -> int | None:
    """Return the period that the bill covers [us], or None for the trace's duration."""
    if args.period_hours is None:
        return None
    hours: Fraction = args.period_hours
    return round(hours * US_PER_H)
