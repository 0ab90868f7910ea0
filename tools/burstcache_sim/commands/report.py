"""`burstcache sim report TRACE…`: a run with its bill, competitors and pictures, for a terminal or as a page."""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

from burstcache.core.errors import InvalidSettingError
from burstcache.core.prices import THESIS
from burstcache_sim.bill.comparison import Billing
from burstcache_sim.bill.nodes import always_on_name
from burstcache_sim.bill.setup import TEMPLATE_NODE, TEMPLATE_RELAY, Setup
from burstcache_sim.bill.spending import policy_prices
from burstcache_sim.commands.inputs import (
    clock_of,
    name_of,
    penalty_units_of,
    period_us_of,
    policy_of,
    policy_options,
    setup_of,
    trace_of,
)
from burstcache_sim.commands.measured import prices_of
from burstcache_sim.output import STANDARD_OUTPUT, check_target, made_folder, write_lines
from burstcache_sim.policies.policy import Policy
from burstcache_sim.policies.registry import DEFAULT, POLICIES, TEMPLATE, TEMPLATE_USD_PER_HIT
from burstcache_sim.progress import progress
from burstcache_sim.report.contents import Report, build_report
from burstcache_sim.report.document import as_fields, as_page, as_text, csv_lines
from burstcache_terminal.exit_codes import ExitCode


def run(args: argparse.Namespace) -> ExitCode:
    """Report on a run: print the tables, and write the files that the options name."""
    has_tables = _check_output(args)
    has_default_policy = _complete(args)
    prices = prices_of(args)
    setup = replace(setup_of(args, prices), relay=args.relay)
    is_default = has_default_policy and _is_template_setup(setup)
    weighs = policy_prices(prices, setup)
    policy = policy_of(args, weighs)
    penalty_units, period_us = penalty_units_of(args), period_us_of(args)
    trace = trace_of(args)
    usd_per_hit = args.hit_value_usd or Fraction(0)
    billing = Billing(prices, setup, period_us, args.only_cache, usd_per_hit, same_objects=args.same_objects)
    report = build_report(
        policy,
        trace,
        billing,
        clock=clock_of(args),
        knobs=dict(each.knob(policy_options(args), weighs) for each in POLICIES.values()),
        penalty_units=penalty_units,
    )
    replayed = _replayed(args, setup, is_default=is_default)
    _draw(args, report, policy, billing, replayed)
    if args.csv:
        write_lines("--csv", args.csv, csv_lines(report))
    if has_tables:
        text = as_text(report, instance_type=setup.instance_type, replayed=replayed)
        fields = {"policy": args.policy, "is_template_default": is_default, "replayed": replayed}
        print(json.dumps(fields | as_fields(report)) if args.json else text)
    return ExitCode.SUCCESS


def _complete(args: argparse.Namespace) -> bool:
    """Fill in the policy, its parameters, relay and node. Return True if no option sets the policy.

    The default is the template's policy, relay and node. `--rate`, `--sensitivity` and `--overrides` imply the thesis's
    policy.
    """
    is_thesis = any(value is not None for value in (args.rate, args.sensitivity, args.overrides))
    has_default_policy = args.policy is None and not is_thesis and args.hit_value_usd is None
    args.policy = args.policy or (DEFAULT if is_thesis else TEMPLATE)
    args.rate, args.sensitivity, args.overrides = args.rate or "9", args.sensitivity or "4", args.overrides or ""
    if args.policy == TEMPLATE and args.hit_value_usd is None:
        args.hit_value_usd = TEMPLATE_USD_PER_HIT
    args.relay = TEMPLATE_RELAY if args.policy == TEMPLATE else Setup().relay
    if args.policy == TEMPLATE and args.prices != THESIS:
        args.instance_type = args.instance_type or TEMPLATE_NODE
    return has_default_policy


def _is_template_setup(setup: Setup) -> bool:
    """Return whether the template deploys this setup by default, ignoring readers and sizes."""
    template = replace(Setup(), relay=TEMPLATE_RELAY, instance_type=TEMPLATE_NODE)
    return setup == replace(template, readers=setup.readers, object_bytes=setup.object_bytes)


def _replayed(args: argparse.Namespace, setup: Setup, *, is_default: bool) -> str:
    """Describe the policy and setup that were replayed."""
    described = POLICIES[args.policy].describe(policy_options(args))
    nodes = f"{setup.nodes} {setup.instance_type}, relay {setup.relay}"
    reason = "the template's default" if is_default else "by the options"
    return (
        f"Replayed: policy {described}; {nodes} ({reason}). burstcache advise may choose another setup for this log: it"
        " compares all of them, and the library alone."
    )


def _check_output(args: argparse.Namespace) -> bool:
    """Reject unwritable files before the expensive work. Return whether standard output is free for the tables."""
    for option, name in (("--out", args.out), ("--csv", args.csv)):
        if name:
            check_target(option, name)
    if args.figures:
        made_folder("--figures", args.figures)
    streamed = [args.out, args.csv].count(STANDARD_OUTPUT)
    if streamed + args.json > 1:
        raise InvalidSettingError("--out -, --csv -, --json: expected one of them, all write to standard output")
    return not streamed


def _draw(args: argparse.Namespace, report: Report, policy: Policy, billing: Billing, replayed: str) -> None:
    """Draw the pictures if an option requests a page or a folder of them. Drawing takes seconds."""
    if not args.out and not args.figures:
        return
    from burstcache_sim.report.drawing import FORMATS, write_image
    from burstcache_sim.report.money import money_over_time
    from burstcache_sim.report.pictures import pictures

    title, instance_type = args.title or _title(args), billing.setup.instance_type
    money = money_over_time(
        policy, report.trace, billing, report.result, ("s3-only", always_on_name(instance_type), "s3-express")
    )
    figures = pictures(report, money, title=title, instance_type=instance_type)
    if args.figures:
        folder = Path(args.figures)
        for name, figure in progress(figures.items(), text="pictures"):
            for suffix in FORMATS:
                write_image(figure, folder / f"{name}{suffix}")
    if args.out:
        page = as_page(report, money, figures, title=title, replayed=replayed, instance_type=instance_type)
        write_lines("--out", args.out, [page])


def _title(args: argparse.Namespace) -> str:
    name = name_of(args.traces)
    return name if args.rank is None else f"{name}, object {args.rank}"
