"""`burstcache sim report TRACE…`: a run, its bill, its competitors and its pictures, for a terminal or as a page."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from burstcache.core.errors import InvalidSettingError
from burstcache.core.prices import price_sheet
from burstcache_sim.bill.spending import weighed
from burstcache_sim.commands.options import (
    add_policy_options,
    add_trace_options,
    decimal,
    penalty_units_of,
    policy_of,
    policy_options,
    trace_of,
)
from burstcache_sim.commands.setup_options import add_setup_options, period_us_of, setup_of
from burstcache_sim.latency import THESIS_LATENCIES, TierLatencies
from burstcache_sim.output import STANDARD_OUTPUT, check_target, made_folder, write_lines
from burstcache_sim.policies.registry import POLICIES

if TYPE_CHECKING:
    from burstcache_sim.report.contents import Report

_TIERS = ("s3", "lambda", "redis", "network")


def add_parser(subparsers: Any) -> None:
    """Add the simulation and its options."""
    parser = subparsers.add_parser("report", help="tell and draw all about a run")
    add_trace_options(parser)
    add_policy_options(parser)
    add_setup_options(parser)
    add = parser.add_argument
    for tier in _TIERS:
        ms = getattr(THESIS_LATENCIES, f"{tier}_ms")
        what = "added to every latency" if tier == "network" else "mean latency of this tier"
        add(f"--{tier}-ms", metavar="MS", default=str(ms), help=f"{what} (default: {ms:g})")
    add("--miss-penalty-usd", metavar="USD", help="what a miss costs the optimum (default: it has none)")
    add("--title", metavar="TEXT", help="of page and pictures (default: the first file's name)")
    add("--out", metavar="FILE", help="write a page of its own (HTML; -: to standard output)")
    add("--figures", metavar="DIR", help="write the pictures here, as SVG and PNG")
    add("--csv", metavar="FILE", help="write a line per request (-: to standard output)")
    add("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    """Gather the report, write what was asked for, print it."""
    has_tables = _check_output(args)
    prices = price_sheet(args.prices)
    setup = setup_of(args, prices)
    latencies = _latencies(args)
    weighs = weighed(prices, setup)
    policy = policy_of(args, weighs)
    penalty_units, period_us = penalty_units_of(args), period_us_of(args)
    trace = trace_of(args)

    from burstcache_sim.report.contents import gather

    report = gather(
        trace,
        policy,
        prices,
        setup,
        latencies=latencies,
        knobs=dict(each.knob(policy_options(args), weighs) for each in POLICIES.values()),
        period_us=period_us,
        penalty_units=penalty_units,
        only_cache=args.only_cache,
    )
    _draw(args, report, latencies, setup.instance_type)
    if args.csv:
        from burstcache_sim.report.document import csv_lines

        write_lines("--csv", args.csv, csv_lines(report, latencies))
    if has_tables:
        _print(report, as_json=args.json)
    return 0


def _check_output(args: argparse.Namespace) -> bool:
    """Refuse what cannot be written before the long work; return whether standard output is free for the tables."""
    for option, name in (("--out", args.out), ("--csv", args.csv)):
        if name:
            check_target(option, name)
    if args.figures:
        made_folder("--figures", args.figures)
    streamed = [args.out, args.csv].count(STANDARD_OUTPUT)
    if streamed + args.json > 1:
        raise InvalidSettingError("--out -, --csv -, --json: expected one of them, all write to standard output")
    return not streamed


def _latencies(args: argparse.Namespace) -> TierLatencies:
    expected = "milliseconds, at least 0"
    return TierLatencies(
        **{f"{tier}_ms": float(decimal(f"--{tier}-ms", getattr(args, f"{tier}_ms"), expected)) for tier in _TIERS}
    )


def _print(report: Report, *, as_json: bool) -> None:
    from burstcache_sim.report.document import as_fields, as_text

    print(json.dumps(as_fields(report)) if as_json else as_text(report))


def _draw(args: argparse.Namespace, report: Report, latencies: TierLatencies, instance_type: str) -> None:
    """Draw the pictures if anything wants them: drawing takes seconds."""
    if not args.out and not args.figures:
        return
    from burstcache_sim.report.document import as_page
    from burstcache_sim.report.drawing import FORMATS, write_image
    from burstcache_sim.report.pictures import pictures

    title = args.title or _title(args)
    figures = pictures(report, latencies=latencies, title=title, instance_type=instance_type)
    if args.figures:
        folder = Path(args.figures)
        for name, figure in figures.items():
            for suffix in FORMATS:
                write_image(figure, folder / f"{name}{suffix}")
    if args.out:
        policy = POLICIES[args.policy].described(policy_options(args))
        write_lines("--out", args.out, [as_page(report, figures, title=title, policy=policy)])


def _title(args: argparse.Namespace) -> str:
    name = Path(args.traces[0]).name or args.traces[0]
    more = f" and {len(args.traces) - 1} more" if len(args.traces) > 1 else ""
    return f"{name}{more}" if args.rank is None else f"{name}{more}, object {args.rank}"
