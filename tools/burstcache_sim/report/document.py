"""A report as text for a terminal, as JSON, as a page, and request by request as CSV."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from burstcache.core.parameters import US_PER_S
from burstcache_sim.bill.comparison import OURS
from burstcache_sim.latency import TierLatencies, latencies_ms
from burstcache_sim.report import html
from burstcache_sim.report.bills import (
    BILL_NUMBERS,
    COMPARISON_NUMBERS,
    bill_lines,
    bill_rows,
    bill_table,
    compared_fields,
    comparison_rows,
    comparison_table,
    unchecked_note,
)
from burstcache_sim.report.contents import OPTIMUM_PRICES, Report
from burstcache_terminal.text import count_text, duration_text, number_text, table_text, wrapped_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from burstcache_sim.world.result import RunResult

_SERVED = ("served by", "requests", "share %")
_LATENCY = ("mean ms", "50 % within", "90 %", "95 %", "99 %")
# What the pictures show, for readers who cannot see them; the tables have the numbers.
_PARETO = (
    "Cost of each setting of both policies against the share of requests that it serves from memory, and one point"
    " for each competitor"
)
_BREAKEVEN = (
    "Cost of Burstcache and of one competitor of each kind against the number of bursts, with a ring where Burstcache"
    " and another one cost the same"
)


def as_text(report: Report) -> str:
    """Return the report for a terminal."""
    return "\n\n".join(
        (
            wrapped_text(_lead(report)),
            table_text(_SERVED, _served_rows(report.result), right=(1, 2)),
            table_text(_LATENCY, [_latency_row(report)], right=range(len(_LATENCY))),
            bill_table(report.bill, report.periods_per_month),
            comparison_table(report.compared),
        )
    )


def as_fields(report: Report) -> dict[str, Any]:
    """Return the report for JSON."""
    result, plans = report.result, report.plans
    counted = "n n_s3 n_lambda n_redis in_memory_pct lambda_ms invocations cold_starts redis_s redis_starts s3_requests"
    return {
        **{name: getattr(result, name) for name in counted.split()},
        "period_s": report.demand.period_us / US_PER_S,
        "prices": report.bill.sheet,
        "usd": report.bill.usd,
        "usd_per_month": report.ours.usd_per_month,
        "cache_usd": report.cache_usd,
        "offline_usd": plans.offline_usd if plans else None,
        "optimum_usd": plans.optimum_usd if plans else None,
        "latency": asdict(report.latency),
        "lines": bill_lines(report.bill),
        "compared": [compared_fields(system) for system in report.compared],
        "fronts": {
            name: [{"in_memory_pct": pct, "usd": usd} for pct, usd in front] for name, front in report.fronts.items()
        },
    }


def as_page(report: Report, figures: Mapping[str, Figure], *, title: str, policy: str) -> str:
    """Return the report as a self-contained page.

    Args:
        report: What was gathered.
        figures: From `pictures`.
        title: The trace's name.
        policy: The policy and its parameters, for a person.
    """
    result = report.result
    ours = [i for i, system in enumerate(report.compared) if system.name == OURS]
    sections = [
        html.Section(
            "The run",
            (
                html.picture(figures["run"], name="run", alternative=_alternative(result)),
                html.table(_SERVED, _served_rows(result), right=(1, 2)),
                html.table(_LATENCY, [_latency_row(report)], right=range(len(_LATENCY))),
                html.text(_about_latency()),
                html.text(_about_plans(report)),
            ),
        ),
        html.Section(
            "What it is billed",
            (
                html.table(
                    *bill_rows(report.bill, report.periods_per_month),
                    right=BILL_NUMBERS,
                    strong=[len(report.bill.lines)],
                ),
                *map(html.text, filter(None, [unchecked_note(report.bill)])),
            ),
        ),
        html.Section(
            "What else one could buy",
            (html.table(*comparison_rows(report.compared), right=COMPARISON_NUMBERS, strong=ours),),
        ),
        html.Section(
            "Cost against the share served from memory",
            (
                html.picture(figures["pareto"], name="pareto", alternative=_PARETO),
                html.text("Lower and further to the right is better. Competitors have no knob: each is one point."),
            ),
        ),
        html.Section(
            "How often the trace may come",
            (
                html.picture(figures["breakeven"], name="breakeven", alternative=_BREAKEVEN),
                html.text("The trace counts as one burst, repeated without overlap at instants that nobody knows."),
            ),
        ),
    ]
    return html.page(title, sections, lead=f"{_lead(report)} Policy: {policy}.")


def csv_lines(report: Report, latencies: TierLatencies) -> Iterator[str]:
    """Return a line per request of the run: arrival, key (if there are many), tier, a latency drawn for it."""
    trace, tiers = report.trace, report.result.tiers
    drawn_ms = latencies_ms(tiers, latencies).tolist()
    names = {"S": "s3", "L": "lambda", "R": "redis"}
    has_keys = trace.key_ids is not None
    yield "arrival_s,key,tier,latency_ms\n" if has_keys else "arrival_s,tier,latency_ms\n"
    keys = [f"{_quoted(key)}," for key in trace.keys] if has_keys else [""]
    key_ids = trace.key_ids.tolist() if trace.key_ids is not None else [0] * len(tiers)
    for at_us, key_id, tier, ms in zip(trace.arrivals_us.tolist(), key_ids, tiers, drawn_ms, strict=True):
        yield f"{at_us // US_PER_S}.{at_us % US_PER_S:06d},{keys[key_id]}{names[tier]},{ms:.3f}\n"


def _lead(report: Report) -> str:
    result = report.result
    objects = f" for {count_text(report.demand.objects, 'object')}" if report.demand.objects > 1 else ""
    lasts = duration_text(report.demand.period_us / US_PER_S)
    return (
        f"{count_text(result.n, 'request')}{objects} in {lasts}, {result.in_memory_pct:.2f} % from memory,"
        f" {number_text(report.bill.usd)} USD with the prices {report.bill.sheet}."
    )


def _served_rows(result: RunResult) -> list[tuple[str, ...]]:
    counts = (("S3", result.n_s3), ("Lambda", result.n_lambda), ("Redis", result.n_redis))
    return [(name, f"{n:,}", f"{100 * n / max(result.n, 1):.2f}") for name, n in counts]


def _alternative(result: RunResult) -> str:
    shares = ", ".join(f"{name} {share} %" for name, _, share in _served_rows(result))
    return f"Latency of each request over time in the colour of who served it ({shares}); below, what ran when"


def _latency_row(report: Report) -> tuple[str, ...]:
    found = report.latency
    return tuple(f"{ms:.2f}" for ms in (found.mean_ms, found.p50_ms, found.p90_ms, found.p95_ms, found.p99_ms))


def _about_latency() -> str:
    return (
        "Latencies are not simulated: each tier has a mean, by default what the thesis measured at its proxy, and"
        " requests spread around it. What the network of a client adds is not in them unless it was given."
    )


def _about_plans(report: Report) -> str:
    if report.plans is None:
        return "Many objects: the lanes show how many cache functions and nodes ran at once."
    costs = "Amounts next to the lanes cover the cache alone: function, node, S3."
    if report.plans.optimum_usd is None:
        return f"{costs} The optimum is planned with the prices {OPTIMUM_PRICES}, so it has no amount here."
    return f"{costs} The offline algorithm pays for no request, the optimum does."


def _quoted(key: str) -> str:
    """Return a key as a cell of CSV."""
    return '"' + key.replace('"', '""') + '"' if any(mark in key for mark in '",\r\n') else key
