"""Options that several simulations share: which trace, which policy."""

from __future__ import annotations

import argparse
from fractions import Fraction
from typing import TYPE_CHECKING

from burstcache.core.breakeven import BreakevenPrices
from burstcache.core.errors import InvalidSettingError
from burstcache_sim.policies.policy import Options, Policy
from burstcache_sim.policies.registry import DEFAULT, POLICIES
from burstcache_sim.progress import lines_told
from burstcache_sim.units import UNITS_PER_USD

if TYPE_CHECKING:
    from burstcache_sim.traces.read import Log
    from burstcache_sim.traces.trace import Trace


def add_trace_options(parser: argparse.ArgumentParser) -> None:
    """Let a simulation take a trace or logs."""
    parser.add_argument("traces", nargs="+", metavar="TRACE", help="trace or access log: files, folders, globs")
    formats = "auto, arrival, csv, s3, cloudfront, alb, combined"
    parser.add_argument("--format", default="auto", metavar="NAME", help=f"{formats} (default: auto)")
    parser.add_argument("--rank", type=int, metavar="R", help="only the R-th most requested object (default: all)")
    parser.add_argument("--skip-bad-rows", action="store_true", help="leave out what is no row instead of ending")


def log_of(args: argparse.Namespace) -> Log:
    """Read the log that was asked for."""
    from burstcache_sim.traces.read import read_log

    with lines_told() as on_lines:
        return read_log(
            args.traces, format_=args.format, rank=args.rank, skip_bad_rows=args.skip_bad_rows, on_lines=on_lines
        )


def trace_of(args: argparse.Namespace) -> Trace:
    """Return the trace that was asked for; a log of one object is a trace of one key."""
    from burstcache_sim.traces.trace import Trace

    trace = log_of(args).trace
    return Trace(trace.arrivals_us, None, trace.sizes_bytes, trace.keys) if len(trace.keys) == 1 else trace


def add_policy_options(parser: argparse.ArgumentParser) -> None:
    """Let a simulation take a policy and its parameters."""
    parser.add_argument("--policy", choices=list(POLICIES), default=DEFAULT, help=f"default: {DEFAULT}")
    parser.add_argument("--rate", default="9", help="thesis: expected requests per minute (default: 9)")
    parser.add_argument("--sensitivity", default="4", help="thesis: above 0 and up to 5 (default: 4)")
    parser.add_argument("--overrides", default="", metavar="NAME=VALUE,…", help="thesis: single parameters")
    parser.add_argument("--hit-value-usd", metavar="USD", help="breakeven: what a hit is worth, such as 1e-4")


def policy_options(args: argparse.Namespace) -> Options:
    """Return what was said about the policy."""
    return Options(args.rate, args.sensitivity, args.overrides, args.hit_value_usd)


def policy_of(args: argparse.Namespace, prices: BreakevenPrices) -> Policy:
    """Return the policy that was asked for; it may weigh a hit against the prices.

    Raises:
        InvalidSettingError: A value is missing or not accepted.
    """
    return POLICIES[args.policy].from_options(policy_options(args), prices)


def penalty_units_of(args: argparse.Namespace) -> int | None:
    """Return what a miss costs the optimum [cost units]; None: it has none."""
    if args.miss_penalty_usd is None:
        return None
    return whole_parts("--miss-penalty-usd", args.miss_penalty_usd, UNITS_PER_USD, "an amount of at least 0")


def decimal(option: str, text: str, expected: str) -> Fraction:
    """Return an option's number, exactly; raise `InvalidSettingError` if it is none."""
    try:
        if "/" in text:
            raise ValueError
        return Fraction(text)
    except ValueError:
        raise InvalidSettingError(f"{option} {text!r}: expected {expected}") from None


def whole_parts(option: str, text: str, parts: int, expected: str) -> int:
    """Return an option's number in so many parts of one, rounded half to even; it must not be below 0."""
    value = decimal(option, text, expected)
    if value < 0:
        raise InvalidSettingError(f"{option} {text}: expected {expected}")
    return round(value * parts)
