"""`burstcache advise LOG…`: whether to deploy Burstcache for a log, how, and at what cost."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any, TypeVar

from burstcache.core.node_kinds import node_items
from burstcache.core.prices import PriceSheet
from burstcache_sim.bill.nodes import fitting_type, node_capacity_bytes
from burstcache_sim.bill.setup import Setup
from burstcache_sim.choose.advise.advice import advise
from burstcache_sim.choose.advise.deployed import DeployedStack, against_deployed, deployed_fields, deployed_lines
from burstcache_sim.choose.advise.fields import advice_fields
from burstcache_sim.choose.advise.samconfig import check_deployable
from burstcache_sim.choose.advise.systems import check_without
from burstcache_sim.choose.advise.text import advice_text
from burstcache_sim.choose.advise.unsized import unsized_fields, unsized_text
from burstcache_sim.choose.advise.worth import Value
from burstcache_sim.choose.tune.workload import Workload, workload_of
from burstcache_sim.commands.arguments import POSITIVE_USD
from burstcache_sim.commands.inputs import clock_of, name_of, period_us_of, trace_of
from burstcache_sim.commands.measured import node_times_of, prices_of
from burstcache_sim.output import check_target
from burstcache_terminal.exit_codes import ExitCode
from burstcache_terminal.options import whole
from burstcache_terminal.text import wrapped_text

Answer = TypeVar("Answer")

_QUESTION = (
    "What is a request answered from memory instead of S3 worth to you, in USD?\n"
    "(such as 1e-5, ten dollars per million; Enter if you do not know) "
)
_READERS_QUESTION = "How many processes read, each with its own memory?\n(such as 8; Enter for one long-lived process) "


def run(args: argparse.Namespace, deployed: DeployedStack | None = None, notes: Sequence[str] = ()) -> ExitCode:
    """Read the log, prompt for a missing hit value and number of readers, search, and print the advice.

    Args:
        args: The command's options.
        deployed: A stack to compare with. Its value of a hit replaces a missing one.
        notes: Lines about the stack that follow the comparison.
    """
    prices = prices_of(args)
    if args.out:
        check_target("--out", args.out)
    workload = _workload(args, prices)
    check_without(args.without, workload)
    if workload.trace.sizes_bytes is None and args.object_bytes is None:
        fields = unsized_fields(workload, args.traces)
        print(json.dumps(fields) if args.json else unsized_text(fields))
        if args.out:
            print(f"note: {args.out} is not written, as there is no verdict", file=sys.stderr)
        return ExitCode.SUCCESS
    value = Value(args.hit_value_usd or 0.0, args.ms_value_usd or 0.0)
    if deployed and not value.is_known:
        value = Value(usd_per_hit=deployed.hit_value_usd)
    if _is_interactive(args) and not value.is_known:
        value = Value(usd_per_hit=_prompt(_QUESTION, POSITIVE_USD) or 0.0)
    if _is_interactive(args) and args.reader_processes is None:
        readers = _prompt(_READERS_QUESTION, whole(least=1)) or 1
        workload = replace(workload, setup=replace(workload.setup, reader_processes=readers))
    advice = advise(
        workload,
        value,
        clock_of(args),
        candidates=args.candidates,
        without=args.without,
        free_tiers=args.free_tiers,
        only=args.policy or "",
        node_kinds=tuple(args.node_kinds),
    )
    if args.out:
        from burstcache_sim.choose.advise.page import write_page

        write_page(args.out, advice, name_of(args.traces))
    comparison: dict[str, Any] = {}
    if deployed:
        against = against_deployed(advice, deployed)
        comparison = {"deployed": deployed_fields(against), "notes": list(notes)}
        if not args.json:
            print("\n".join(map(wrapped_text, [*deployed_lines(against), *notes])) + "\n")
    if args.json:
        print(json.dumps(advice_fields(advice) | comparison))
    else:
        print(advice_text(advice, is_long=args.long))
    return ExitCode.SUCCESS


def _workload(args: argparse.Namespace, prices: PriceSheet) -> Workload:
    period_us = period_us_of(args)
    front_door, memory_mb = args.front_door, args.cache_memory_mb
    size = args.object_bytes or Setup().object_bytes
    setup = Setup(cache_memory_mb=memory_mb, front_door=front_door, readers=args.readers, object_bytes=size)
    instance_type = args.instance_type or setup.instance_type
    # Reach cache functions through a DNS name, because a load balancer costs more without any benefit.
    setup = replace(setup, instance_type=instance_type, reader_processes=args.reader_processes or 1, relay="direct")
    events = args.origin_events or setup.origin_events
    setup = replace(setup, writes_per_h=Fraction(args.writes_per_hour), origin_events=events)
    rate, seed = args.interruptions_per_hour, args.interruption_seed
    setup = replace(setup, node_times=node_times_of(args), interruptions_per_h=rate, interruption_seed=seed)
    check_deployable(setup)
    for item in (*dict(node_items(setup.instance_type)), f"lambda-duration:{setup.architecture}", "http-api-request"):
        prices.row(item)  # fail before the log is read
    workload = workload_of(trace_of(args), prices, setup, period_us=period_us)
    if args.instance_type is None:
        setup = replace(setup, instance_type=fitting_type(prices, workload.own_demand.stored_bytes))
    has_sizes = workload.trace.key_ids is not None and workload.trace.sizes_bytes is not None
    capacity_bytes = node_capacity_bytes(setup.instance_type) if has_sizes else None
    return replace(workload, setup=setup, capacity_bytes=capacity_bytes, same_objects=args.same_objects)


def _is_interactive(args: argparse.Namespace) -> bool:
    """Return whether a user at a terminal can be prompted."""
    return not args.json and sys.stdin.isatty() and sys.stderr.isatty()


def _prompt(question: str, parse: Callable[[str], Answer]) -> Answer | None:
    """Prompt the user until the answer is accepted. Return None for an empty answer."""
    while True:
        print(question, end="", file=sys.stderr, flush=True)
        try:
            line = sys.stdin.readline()
        except KeyboardInterrupt:
            print(file=sys.stderr)
            raise
        if not line:
            print(file=sys.stderr)  # Ctrl-D leaves the cursor at the end of the question
        if not (answer := line.strip()):
            return None
        try:
            return parse(answer)
        except argparse.ArgumentTypeError as error:
            print(error, file=sys.stderr)
