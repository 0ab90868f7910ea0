"""`burstcache sim bill TRACE…` itemises what a run is billed, `compare` sets it beside what else one could buy."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from burstcache.core.breakeven import BreakevenPrices
from burstcache.core.cost import Bill
from burstcache.core.parameters import US_PER_S
from burstcache.core.prices import SHEETS, UNCHECKED, PriceSheet, price_sheet
from burstcache.errors import InvalidSettingError
from burstcache.sim.comparison import HOURS_PER_MONTH, Compared, compare, demand_for, own_bill, simulate
from burstcache.sim.options import add_policy_options, add_trace_options, policy_parameters, trace_of
from burstcache.sim.run import PolicyParameters
from burstcache.sim.trace import Trace
from burstcache.sim.usage import THESIS_MEMORY_MB, US_PER_H, Setup

_TODAY, _THESIS = "today-us-east-1", "thesis-2022"
_DEFAULTS = Setup()


def add_parser(subparsers: Any) -> None:
    """Add both simulations and their options."""
    _add_common(subparsers.add_parser("bill", help="itemise what a run would be billed"))
    compare_parser = subparsers.add_parser("compare", help="set a run beside what one could buy instead")
    _add_common(compare_parser)
    compare_parser.add_argument(
        "--against", action="append", default=[], metavar="NAME", help="only this competitor (may be repeated)"
    )


def run(args: argparse.Namespace) -> int:
    """Simulate, bill, print."""
    prices = price_sheet(args.prices)
    setup = _setup(args, prices)
    trace = trace_of(args)
    parameters = policy_parameters(args, _weighed(prices, setup))
    hours = args.period_hours
    period_us = None if hours is None else round(_above_zero("--period-hours", hours) * US_PER_H)
    if args.sim_command == "bill":
        print(_bill(args, trace, parameters, prices, setup, period_us))
    else:
        compared = compare(
            trace,
            parameters,
            prices,
            setup,
            period_us=period_us,
            against=tuple(args.against),
            only_cache=args.only_cache,
        )
        print(json.dumps([_fields(system) for system in compared]) if args.json else _comparison_table(compared))
    return 0


def _add_common(parser: argparse.ArgumentParser) -> None:
    add_trace_options(parser)
    add_policy_options(parser)
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
    add("--json", action="store_true", help="print JSON")


def _setup(args: argparse.Namespace, prices: PriceSheet) -> Setup:
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


def _weighed(prices: PriceSheet, setup: Setup) -> BreakevenPrices:
    """Return what the break-even policy weighs a hit against, in this setup."""
    return BreakevenPrices(
        lambda_usd_per_s=prices.usd(f"lambda-duration:{setup.architecture}") * Fraction(setup.cache_memory_mb, 1024),
        redis_usd_per_s=prices.usd(f"ec2:{setup.instance_type}") / 3600,
        s3_get_usd=prices.usd("s3-get"),
    )


def _above_zero(option: str, text: str) -> Fraction:
    try:
        value = Fraction(text)
    except (ValueError, ZeroDivisionError):
        value = Fraction(0)
    if value <= 0:
        raise InvalidSettingError(f"{option} {text!r}: expected a number above 0")
    return value


def _bill(
    args: argparse.Namespace,
    trace: Trace,
    parameters: PolicyParameters,
    prices: PriceSheet,
    setup: Setup,
    period_us: int | None,
) -> str:
    result = simulate(trace, parameters, nodes=setup.nodes)
    demand = demand_for(result, trace, setup, period_us)
    billed = own_bill(result, demand, prices, setup, only_cache=args.only_cache)
    per_month = Fraction(HOURS_PER_MONTH * US_PER_H, demand.period_us or 1)
    if not args.json:
        served = f"{result.n} requests, {result.in_memory_pct:.2f} % from memory"
        return f"{served}, in {demand.period_us / US_PER_S:.0f} s\n{_bill_table(billed, per_month)}"
    found = {
        "n": result.n,
        "in_memory_pct": result.in_memory_pct,
        "period_s": demand.period_us / US_PER_S,
        "prices": prices.name,
        "usd": billed.usd,
        "fixed_usd": float(billed.fixed_usd_exact),
        "usd_per_month": float(billed.usd_exact * per_month),
        "lines": _lines(billed),
    }
    return json.dumps(found)


def _lines(billed: Bill) -> list[dict[str, Any]]:
    return [
        {
            "item": line.text,
            "quantity": float(line.quantity),
            "unit": line.unit,
            "usd": line.usd,
            "is_fixed": line.is_fixed,
            "source": line.source,
        }
        for line in billed.lines
    ]


def _fields(system: Compared) -> dict[str, Any]:
    at = system.cheaper_at
    return {
        "name": system.name,
        "usd": system.usd,
        "usd_per_month": system.usd_per_month,
        "in_memory_pct": system.in_memory_pct,
        "cheaper_at": None if at is None else {"from": at.least, "to": at.most, "in_hours": at.window_h},
        "note": system.note,
        "lines": _lines(system.bill),
    }


def _bill_table(billed: Bill, per_month: Fraction) -> str:
    def row(text: str, quantity: str, unit: str, usd: Fraction) -> tuple[str, ...]:
        return text, quantity, unit, f"{float(usd):.7f}", f"{float(usd * per_month):.2f}"

    rows = [row(line.text, f"{float(line.quantity):.6g}", line.unit, line.usd_exact) for line in billed.lines]
    rows.append(row("sum", "", "", billed.usd_exact))
    table = _aligned(("item", "quantity", "unit", "USD", "USD a month"), rows, right=(1, 3, 4))
    unchecked = [line.text for line in billed.lines if UNCHECKED in line.source]
    return f"{table}\nprices {UNCHECKED}: {'; '.join(unchecked)}" if unchecked else table


def _comparison_table(compared: Sequence[Compared]) -> str:
    rows = [
        (
            system.name,
            f"{system.usd:.6f}",
            f"{system.usd_per_month:.2f}",
            f"{system.in_memory_pct:.2f}",
            "" if system.cheaper_at is None else str(system.cheaper_at),
            system.note,
        )
        for system in compared
    ]
    per = "hour" if compared[-1].cheaper_at is None or compared[-1].cheaper_at.window_h == 1 else "month"
    header = ("system", "USD", "USD a month", "memory %", f"we are cheaper at, a {per}", "note")
    return _aligned(header, rows, right=(1, 2, 3))


def _aligned(header: tuple[str, ...], rows: Sequence[tuple[str, ...]], *, right: tuple[int, ...]) -> str:
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    lines = [
        "  ".join(f"{cell:{'>' if i in right else '<'}{widths[i]}}" for i, cell in enumerate(row)).rstrip()
        for row in (header, *rows)
    ]
    return "\n".join(lines)
