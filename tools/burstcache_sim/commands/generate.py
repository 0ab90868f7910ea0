"""`burstcache sim generate KIND …`: a synthetic trace from a seed."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable

from burstcache.core.parameters import US_PER_S
from burstcache_sim.commands.generators import KINDS
from burstcache_sim.output import check_target, write_lines
from burstcache_terminal.exit_codes import ExitCode


def run(args: argparse.Namespace) -> ExitCode:
    """Write a synthetic trace."""
    check_target("--out", args.out)
    kind = KINDS[args.kind]
    trace = kind.generate(args.seed, **{option.name: getattr(args, option.name) for option in kind.options})
    if kind.has_keys:
        arrivals_us, keys = trace
        write_lines("--out", args.out, _many_key_lines(arrivals_us, keys, args.object_bytes))
    else:
        arrivals_us = trace
        write_lines("--out", args.out, _lines(arrivals_us))
    if not arrivals_us:
        print("burstcache: the trace is empty: no request fell into its duration", file=sys.stderr)
    return ExitCode.SUCCESS


def _lines(arrivals_us: Iterable[int]) -> Iterable[str]:
    yield "arrival_s\n"
    for us in arrivals_us:
        yield f"{us // US_PER_S}.{us % US_PER_S:06d}\n"


def _many_key_lines(arrivals_us: Iterable[int], keys: Iterable[int], object_bytes: int) -> Iterable[str]:
    yield "t,key,size\n"
    for us, key in zip(arrivals_us, keys, strict=True):
        yield f"{us // US_PER_S}.{us % US_PER_S:06d},key-{key + 1},{object_bytes}\n"
