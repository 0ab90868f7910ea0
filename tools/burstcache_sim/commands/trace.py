"""`burstcache sim generate KIND …` writes a trace, `burstcache sim inspect LOG…` tells what is in a log."""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from burstcache.core.errors import InvalidSettingError
from burstcache.core.parameters import US_PER_S
from burstcache_sim.commands.options import add_trace_options, log_of
from burstcache_sim.output import STANDARD_OUTPUT, check_target, write_lines
from burstcache_sim.traces import generate


@dataclass(frozen=True, slots=True)
class Option:
    """One parameter of a generator; its name on the command line carries the unit."""

    flag: str
    argument: str
    type: type
    help: str
    least: float = 0.0
    most: float = math.inf
    above_least: bool = False  # least itself is not accepted
    default: float | None = None


@dataclass(frozen=True, slots=True)
class Kind:
    """One word after `generate`."""

    help: str
    generate: Callable[..., Any]
    options: tuple[Option, ...]


_RATE = Option("--rate-per-min", "rate_per_min", float, "mean rate [requests a minute]", above_least=True)
_SPREAD = Option("--std-s", "std", float, "standard deviation of a spike's arrivals [s]")
_N = Option("--requests", "n", int, "number of requests of a spike", least=1)


def _duration(argument: str) -> Option:
    return Option("--duration-s", argument, float, "length of the trace [s]", above_least=True)


KINDS = {
    "poisson": Kind("requests at random, at a constant mean rate", generate.poisson, (_RATE, _duration("duration_s"))),
    "spike": Kind("one burst, normally distributed in time", generate.spike, (_SPREAD, _N)),
    "mmpp": Kind(
        "quiet and busy stays of random length, starting quiet",
        generate.mmpp,
        (
            Option("--on-per-min", "on", float, "rate while busy [requests a minute]"),
            Option("--off-per-min", "off", float, "rate while quiet [requests a minute]"),
            Option("--mean-on-s", "mean_on", float, "mean length of a busy stay [s]", above_least=True),
            Option("--mean-off-s", "mean_off", float, "mean length of a quiet stay [s]", above_least=True),
            _duration("dur"),
        ),
    ),
    "diurnal": Kind(
        "a rate that follows the time of day",
        generate.diurnal,
        (
            Option("--mean-per-min", "mean", float, "mean rate [requests a minute]", above_least=True),
            Option("--depth", "depth", float, "swing of the rate, 0 to 1", most=1.0),
            Option("--period-s", "period", float, "length of a day [s]", above_least=True),
            _duration("dur"),
        ),
    ),
    "spikes-train": Kind(
        "several bursts, one after the other",
        generate.spikes_train,
        (
            _SPREAD,
            _N,
            Option("--spikes", "count", int, "number of spikes", least=1),
            Option("--spacing-s", "spacing", float, "mean distance of two spikes [s]"),
        ),
    ),
    "zipf": Kind(
        "many keys, a few of them asked for most of the time; written as t,key,size",
        generate.zipf,
        (
            _RATE,
            _duration("duration_s"),
            Option("--keys", "keys", int, "number of keys", least=1),
            Option("--exponent", "exponent", float, "popularity falls as 1 / rank^exponent (1)", default=1.0),
        ),
    ),
}


def add_parser(subparsers: Any) -> None:
    """Add `generate` and `inspect`."""
    help_ = "write a trace as CSV; the same seed gives the same bytes"
    generate_parser = subparsers.add_parser("generate", help=help_, description=_sentence(help_))
    generate_parser.set_defaults(run_trace_command=_generate)
    kinds = generate_parser.add_subparsers(dest="kind", metavar="KIND", required=True, title="kinds")
    for name, kind in KINDS.items():
        parser = kinds.add_parser(name, help=kind.help, description=_sentence(kind.help))
        parser.add_argument("--seed", type=int, default=1, help="of the random numbers (1)")
        for option in kind.options:
            parser.add_argument(
                option.flag,
                dest=option.argument,
                type=option.type,
                default=option.default,
                required=option.default is None,
                metavar="N",
                help=option.help,
            )
        if name == "zipf":
            parser.add_argument("--object-bytes", type=int, default=10_000, metavar="N", help="size column (10000)")
        parser.add_argument("--out", metavar="FILE", default=STANDARD_OUTPUT, help="default: -, standard output")
    _add_inspect(subparsers)


def _add_inspect(subparsers: Any) -> None:
    help_ = "tell what is in a log: requests, keys, span, bytes, clock"
    parser = subparsers.add_parser("inspect", help=help_, description=_sentence(help_))
    parser.set_defaults(run_trace_command=_inspect)
    add_trace_options(parser)
    parser.add_argument("--top", type=int, default=10, metavar="N", help="keys to list (10)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(args: argparse.Namespace) -> int:
    """Run the command that was parsed; return its exit code."""
    return int(args.run_trace_command(args))


def _generate(args: argparse.Namespace) -> int:
    check_target("--out", args.out)
    kind = KINDS[args.kind]
    for option in kind.options:
        _check(option, getattr(args, option.argument))
    if args.kind == "zipf" and args.object_bytes < 0:
        raise InvalidSettingError(f"--object-bytes {args.object_bytes}: expected at least 0")
    made = kind.generate(args.seed, **{option.argument: getattr(args, option.argument) for option in kind.options})
    if args.kind == "zipf":
        arrivals_us, keys = made
        write_lines("--out", args.out, _many_key_lines(arrivals_us, keys, args.object_bytes))
    else:
        arrivals_us = made
        write_lines("--out", args.out, _lines(arrivals_us))
    if not arrivals_us:
        print("burstcache: the trace is empty: no request fell into it", file=sys.stderr)
    return 0


def _check(option: Option, value: float) -> None:
    is_low = value < option.least or (option.above_least and value == option.least)
    if is_low or value > option.most or not math.isfinite(value):
        least = f"{'above' if option.above_least else 'at least'} {option.least:g}"
        most = f" and at most {option.most:g}" if math.isfinite(option.most) else ""
        raise InvalidSettingError(f"{option.flag} {value:g}: expected a number {least}{most}")


def _lines(arrivals_us: Iterable[int]) -> Iterable[str]:
    yield "arrival_s\n"
    for us in arrivals_us:
        yield f"{us // US_PER_S}.{us % US_PER_S:06d}\n"


def _many_key_lines(arrivals_us: Iterable[int], keys: Iterable[int], object_bytes: int) -> Iterable[str]:
    yield "t,key,size\n"
    for us, key in zip(arrivals_us, keys, strict=True):
        yield f"{us // US_PER_S}.{us % US_PER_S:06d},key-{key + 1},{object_bytes}\n"


def _inspect(args: argparse.Namespace) -> int:
    from burstcache_sim.traces.inspect import describe, describe_text

    if args.top < 0:
        raise InvalidSettingError(f"--top {args.top}: expected at least 0")
    description = describe(log_of(args), top=args.top, first_rank=args.rank or 1)
    print(json.dumps(description, indent=2) if args.json else describe_text(description))
    return 0


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:] + "."
