"""Options that price a run: which sheet, how the system is deployed, for how long it stands."""

from __future__ import annotations

import argparse

from burstcache.core.errors import InvalidSettingError
from burstcache.core.prices import SHEETS, PriceSheet
from burstcache_sim.bill.usage import THESIS_MEMORY_MB, US_PER_H, Setup
from burstcache_sim.commands.options import decimal

_TODAY, _THESIS = "today-us-east-1", "thesis-2022"
_DEFAULTS = Setup()


def add_setup_options(parser: argparse.ArgumentParser) -> None:
    """Let a simulation take prices, a way to deploy, a period."""
    add = parser.add_argument
    add("--prices", default=_TODAY, metavar="SHEET", help=f"{', '.join(SHEETS)} (default: {_TODAY})")
    add("--architecture", choices=["arm", "x86"], help="of functions and relay (default: the sheet's)")
    add("--instance-type", metavar="TYPE", help="Redis node (default: t4g.micro; thesis-2022: t2.micro)")
    add("--cache-memory-mb", type=int, metavar="MB", help="cache function (default: 256; thesis-2022: 1024)")
    add("--front-door", choices=["http-api", "alb"], default="http-api", help="default: http-api")
    add("--object-bytes", type=int, default=_DEFAULTS.object_bytes, help="where a trace has no sizes (default: 10000)")
    add("--nodes", type=int, default=1, help="Redis nodes, if there are many objects (default: 1)")
    add("--period-hours", metavar="H", help="how long the stack stands (default: as long as the trace)")
    add("--only-cache", action="store_true", help="the thesis's view: cache function, node and S3 alone")


def setup_of(args: argparse.Namespace, prices: PriceSheet) -> Setup:
    """Return how the system is deployed.

    Raises:
        InvalidSettingError: A value is not accepted.
        PriceMissingError: The sheet does not know the instance type or the processor.
    """
    is_thesis = prices.name == _THESIS
    for option in ("cache_memory_mb", "object_bytes", "nodes"):
        if (value := getattr(args, option)) is not None and value < 1:
            raise InvalidSettingError(f"--{option.replace('_', '-')} {value}: expected at least 1")
    setup = Setup(
        architecture=args.architecture or prices.architecture,
        instance_type=args.instance_type or ("t2.micro" if is_thesis else _DEFAULTS.instance_type),
        cache_memory_mb=args.cache_memory_mb or (THESIS_MEMORY_MB if is_thesis else _DEFAULTS.cache_memory_mb),
        front_door=args.front_door,
        object_bytes=args.object_bytes,
        nodes=args.nodes,
    )
    for item in (f"ec2:{setup.instance_type}", f"lambda-duration:{setup.architecture}"):
        prices.row(item)  # says at once what is missing
    return setup


def period_us_of(args: argparse.Namespace) -> int | None:
    """Return for how long the stack stands [us]; None: as long as the trace lasts."""
    if args.period_hours is None:
        return None
    expected = "a number above 0"
    if (hours := decimal("--period-hours", args.period_hours, expected)) <= 0:
        raise InvalidSettingError(f"--period-hours {args.period_hours!r}: expected {expected}")
    return round(hours * US_PER_H)
