"""`burstcache advise LOG…`: whether to deploy Burstcache for a log, how, and what it costs."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from burstcache.core.errors import InvalidSettingError
from burstcache_sim.commands.options import add_trace_options, trace_of

if TYPE_CHECKING:
    from burstcache.core.prices import PriceSheet
    from burstcache_sim.choose.advise.clock import Clock
    from burstcache_sim.choose.advise.worth import Value
    from burstcache_sim.choose.tune.workload import Workload

_QUESTION = (
    "What is a request answered from memory instead of S3 worth to you, in USD?\n"
    "(such as 1e-5, ten dollars per million; Enter if you do not know) "
)


def add_parser(subparsers: Any) -> None:
    """Add the command and its options."""
    parser = subparsers.add_parser(
        "advise",
        help="say whether to deploy this for a log, how, and at what cost",
        description="Say whether Burstcache is the best buy for an access log, with which parameters, at what cost.",
    )
    add = parser.add_argument
    add_trace_options(parser)
    worth = parser.add_mutually_exclusive_group()
    worth.add_argument(
        "--hit-value-usd", metavar="USD", help="what a request answered from memory is worth, such as 1e-5"
    )
    worth.add_argument("--ms-value-usd", metavar="USD", help="what a millisecond saved is worth, such as 2e-7")
    add("--prices", default="today-us-east-1", metavar="SHEET", help="price sheet (default: today-us-east-1)")
    add("--instance-type", metavar="TYPE", help="Redis node (default: the smallest that holds all objects)")
    add("--cache-memory-mb", type=int, default=256, metavar="MB", help="cache function (default: 256)")
    add("--front-door", choices=["http-api", "alb"], default="http-api", help="default: http-api")
    add("--object-bytes", type=int, default=10_000, help="where a log has no sizes (default: 10000)")
    add("--period-hours", metavar="H", help="the log comes once in so long (default: back to back)")
    for tier, ms in (("s3", 50), ("lambda", 1.5), ("redis", 1)):
        add(f"--{tier}-ms", metavar="MS", default=str(ms), help=f"mean latency of this tier (default: {ms:g})")
    add("--front-door-ms", metavar="MS", default="10", help="what API and proxy add to each request (default: 10)")
    add(
        "--without",
        action="append",
        default=[],
        metavar="NAME",
        help="no choice, such as cloudfront (repeatable)",
    )
    add("--candidates", type=int, metavar="N", help="try about so many parameters (default: what takes seconds)")
    add("--out", metavar="REPORT.html", help="write a page with pictures")
    add("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    """Read the log, ask what latency is worth if nobody said, search, answer."""
    from burstcache.core.prices import price_sheet
    from burstcache_sim.choose.advise.advice import advise
    from burstcache_sim.output import check_target

    for option in ("candidates", "object_bytes"):
        if (number := getattr(args, option)) is not None and number < 1:
            raise InvalidSettingError(f"--{option.replace('_', '-')} {number}: expected at least 1")
    clock, prices = _clock(args), price_sheet(args.prices)
    _value(args)  # what is wrong with a call is said before the log is read
    if args.out:
        check_target("--out", args.out)
    workload = _workload(args, prices)
    value = _asked() if _asks(args) else _value(args)
    advice = advise(workload, value, clock, candidates=args.candidates, without=args.without)
    if args.out:
        from burstcache_sim.choose.advise.page import write_page

        write_page(args.out, advice)
    if args.json:
        import json

        from burstcache_sim.choose.advise.fields import advice_fields

        print(json.dumps(advice_fields(advice)))
    else:
        from burstcache_sim.choose.advise.text import advice_text

        print(advice_text(advice))
    return 0


def _workload(args: argparse.Namespace, prices: PriceSheet) -> Workload:
    from burstcache_sim.bill.usage import Setup
    from burstcache_sim.choose.advise.nodes import fitting_type, node_capacity_bytes
    from burstcache_sim.choose.advise.samconfig import check_deployable
    from burstcache_sim.choose.tune.workload import workload_of
    from burstcache_sim.commands.setup_options import period_us_of

    period_us = period_us_of(args)
    front_door, memory_mb, size = args.front_door, args.cache_memory_mb, args.object_bytes
    setup = Setup(cache_memory_mb=memory_mb, front_door=front_door, object_bytes=size)
    setup = replace(setup, instance_type=args.instance_type or setup.instance_type)
    check_deployable(setup)
    for item in (f"ec2:{setup.instance_type}", f"lambda-duration:{setup.architecture}", "http-api-request"):
        prices.row(item)  # says at once what is missing
    workload = workload_of(trace_of(args), prices, setup, period_us=period_us)
    if args.instance_type is None:
        setup = replace(setup, instance_type=fitting_type(prices, workload.own_demand.stored_bytes))
    has_sizes = workload.trace.key_ids is not None and workload.trace.sizes_bytes is not None
    capacity_bytes = node_capacity_bytes(setup.instance_type) if has_sizes else None
    return replace(workload, setup=setup, capacity_bytes=capacity_bytes)


def _clock(args: argparse.Namespace) -> Clock:
    from burstcache_sim.choose.advise.clock import Clock
    from burstcache_sim.latency import TierLatencies

    s3_ms, lambda_ms, redis_ms, front_door_ms = (
        _number(f"--{name.replace('_', '-')}", getattr(args, name), "a number of milliseconds of at least 0")
        for name in ("s3_ms", "lambda_ms", "redis_ms", "front_door_ms")
    )
    return Clock(TierLatencies(s3_ms=s3_ms, lambda_ms=lambda_ms, redis_ms=redis_ms), front_door_ms)


def _value(args: argparse.Namespace) -> Value:
    from burstcache_sim.choose.advise.worth import Value

    if args.hit_value_usd is not None:
        return Value(usd_per_hit=_above_zero("--hit-value-usd", args.hit_value_usd))
    if args.ms_value_usd is not None:
        return Value(usd_per_ms=_above_zero("--ms-value-usd", args.ms_value_usd))
    return Value()


def _asks(args: argparse.Namespace) -> bool:
    is_told = args.hit_value_usd is not None or args.ms_value_usd is not None
    return not is_told and not args.json and sys.stdin.isatty() and sys.stderr.isatty()


def _asked() -> Value:
    """Ask the person at the terminal; an answer that is no amount is asked for again."""
    from burstcache_sim.choose.advise.worth import Value

    while True:
        print(_QUESTION, end="", file=sys.stderr, flush=True)
        try:
            line = sys.stdin.readline()
        except KeyboardInterrupt:
            print(file=sys.stderr)
            raise
        if not line:
            print(file=sys.stderr)  # Ctrl-D leaves the cursor behind the question
        if not (answer := line.strip()):
            return Value()
        try:
            return Value(usd_per_hit=_above_zero("a hit's value", answer))
        except InvalidSettingError as error:
            print(error, file=sys.stderr)


def _above_zero(option: str, text: str) -> float:
    value = _number(option, text, "an amount above 0, such as 1e-5")
    if value == 0:
        raise InvalidSettingError(f"{option} {text!r}: expected an amount above 0, such as 1e-5")
    return value


def _number(option: str, text: str, expected: str) -> float:
    from math import isfinite

    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not (isfinite(value) and value >= 0):
        raise InvalidSettingError(f"{option} {text!r}: expected {expected}")
    return value
