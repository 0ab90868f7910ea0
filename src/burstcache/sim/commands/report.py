"""`burstcache sim report TRACE…`: a run, its bill, its competitors and its pictures, for a terminal or as a page."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from burstcache.core.prices import price_sheet
from burstcache.errors import InvalidSettingError
from burstcache.sim.commands.options import (
    add_policy_options,
    add_trace_options,
    decimal,
    policy_parameters,
    trace_of,
    whole_parts,
)
from burstcache.sim.commands.setup_options import add_setup_options, period_us_of, setup_of, weighed_in
from burstcache.sim.latency import THESIS_LATENCIES, TierLatencies
from burstcache.sim.units import UNITS_PER_USD

if TYPE_CHECKING:
    from burstcache.sim.report.contents import Report

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
    add("--out", metavar="FILE", help="write a page of its own (HTML)")
    add("--figures", metavar="DIR", help="write the pictures here, as SVG and PNG")
    add("--csv", metavar="FILE", help="write a line per request")
    add("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    """Gather the report, write what was asked for, print it."""
    prices = price_sheet(args.prices)
    setup = setup_of(args, prices)
    latencies = _latencies(args)
    weighed = weighed_in(prices, setup)
    parameters = policy_parameters(args, weighed)
    penalty_units, period_us = _penalty_units(args), period_us_of(args)
    trace = trace_of(args)

    from burstcache.sim.report.contents import gather
    from burstcache.sim.report.knobs import knobs

    report = gather(
        trace,
        parameters,
        prices,
        setup,
        latencies=latencies,
        knobs=knobs(weighed, rate=args.rate, overrides=args.overrides),
        period_us=period_us,
        penalty_units=penalty_units,
        only_cache=args.only_cache,
    )
    _draw(args, report, latencies, setup.instance_type)
    if args.csv:
        from burstcache.sim.report.document import csv_lines

        _write("--csv", Path(args.csv), csv_lines(report, latencies))
    _print(report, as_json=args.json)
    return 0


def _latencies(args: argparse.Namespace) -> TierLatencies:
    expected = "milliseconds, at least 0"
    return TierLatencies(
        **{f"{tier}_ms": float(decimal(f"--{tier}-ms", getattr(args, f"{tier}_ms"), expected)) for tier in _TIERS}
    )


def _penalty_units(args: argparse.Namespace) -> int | None:
    if args.miss_penalty_usd is None:
        return None
    return whole_parts("--miss-penalty-usd", args.miss_penalty_usd, UNITS_PER_USD, "an amount of at least 0")


def _print(report: Report, *, as_json: bool) -> None:
    from burstcache.sim.report.document import as_fields, as_text

    print(json.dumps(as_fields(report)) if as_json else as_text(report))


def _draw(args: argparse.Namespace, report: Report, latencies: TierLatencies, instance_type: str) -> None:
    """Draw the pictures if anything wants them: drawing takes seconds."""
    if not args.out and not args.figures:
        return
    from burstcache.sim.report.document import as_page
    from burstcache.sim.report.drawing import FORMATS, write_image
    from burstcache.sim.report.pictures import pictures

    title = args.title or _title(args)
    figures = pictures(report, latencies=latencies, title=title, instance_type=instance_type)
    if args.figures:
        folder = _folder(Path(args.figures))
        for name, figure in figures.items():
            for suffix in FORMATS:
                write_image(figure, folder / f"{name}{suffix}")
    if args.out:
        _write("--out", Path(args.out), [as_page(report, figures, title=title, policy=_policy(args))])


def _title(args: argparse.Namespace) -> str:
    name = Path(args.traces[0]).name or args.traces[0]
    more = f" and {len(args.traces) - 1} more" if len(args.traces) > 1 else ""
    return f"{name}{more}" if args.rank is None else f"{name}{more}, object {args.rank}"


def _policy(args: argparse.Namespace) -> str:
    if args.policy == "breakeven":
        return f"break-even, a hit worth {args.hit_value_usd} USD"
    overrides = f", {args.overrides}" if args.overrides else ""
    return f"thesis, rate {args.rate} a minute, sensitivity {args.sensitivity}{overrides}"


def _folder(path: Path) -> Path:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidSettingError(
            f"--figures {path}: expected a folder that can be written ({error.strerror})"
        ) from error
    return path


def _write(option: str, path: Path, lines: Iterable[str]) -> None:
    try:
        with path.open("w", encoding="utf-8", newline="") as file:
            file.writelines(lines)
    except OSError as error:
        raise InvalidSettingError(f"{option} {path}: expected a file that can be written ({error.strerror})") from error
