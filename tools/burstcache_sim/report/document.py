"""The document of a report: text for a terminal, JSON, a page, and CSV with a line per request."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from burstcache.core.parameters import US_PER_S
from burstcache_sim.bill.comparison import OURS, ComparedSystem
from burstcache_sim.latency import LatencySummary
from burstcache_sim.report import html
from burstcache_sim.report.bills import (
    BILL_NUMBERS,
    COMPARISON_NUMBERS,
    bill_lines,
    bill_rows,
    bill_table,
    cheaper_note,
    compared_fields,
    comparison_rows,
    comparison_table,
    unchecked_note,
)
from burstcache_sim.report.contents import OPTIMUM_PRICES, Report
from burstcache_sim.report.cost_figures import PARETO_NOTE
from burstcache_sim.report.pictures import representative
from burstcache_sim.report.run_figure import shares_of
from burstcache_sim.report.timescale import step_s
from burstcache_terminal.text import count_text, duration_text, number_text, table_text, wrapped_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from burstcache_sim.report.money import Money
    from burstcache_sim.world.result import RunResult

_SERVED = ("served by", "requests", "share %")
_LATENCY = ("", "mean ms", "50 % within", "90 %", "95 %", "99 %")
_STEPS = 12  # maximum number of time steps in the table of a run
_LONG_MS = 100_000  # longer latencies are printed without hundredths
# Alt text of the picture. The tables contain the numbers.
_PARETO = (
    "Cost of each setting of all policies against the share of requests that it serves from memory, and one point"
    " for each competitor"
)


def as_text(report: Report, *, instance_type: str, replayed: str) -> str:
    """Return the report for a terminal, with one competitor of each kind.

    Args:
        report: The report.
        instance_type: Type of Burstcache's node.
        replayed: Description of the policy and setup that were replayed.
    """
    return "\n\n".join(
        (
            f"{wrapped_text(_lead(report))}\n{wrapped_text(replayed)}",
            table_text(_SERVED, _served_rows(report.whole), right=(1, 2)),
            table_text(_LATENCY, _latency_rows(report), right=range(1, len(_LATENCY))),
            bill_table(report.bill, report.month),
            comparison_table(representative(report.compared, instance_type)),
            f"All {len(report.compared)} systems: burstcache sim compare, with the same options.",
        )
    )


def as_fields(report: Report) -> dict[str, Any]:
    """Return the report for JSON."""
    result, plans = report.whole, report.plans
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
        "latency_without": asdict(report.latency_without),
        "lines": bill_lines(report.bill),
        "compared": [compared_fields(system) for system in report.compared],
        "fronts": {
            name: [{"in_memory_pct": pct, "usd": usd} for pct, usd in front] for name, front in report.fronts.items()
        },
    }


def as_page(
    report: Report, money: Money, figures: Mapping[str, Figure], *, title: str, replayed: str, instance_type: str
) -> str:
    """Return the report as a self-contained page.

    Args:
        report: The report.
        money: Bills of Burstcache and competitors over time.
        figures: The pictures, from `pictures`.
        title: Name of the trace.
        replayed: Description of the policy and setup that were replayed.
        instance_type: Type of Burstcache's node.
    """
    result = report.whole
    sections = [
        html.Section(
            "The run",
            (
                html.picture(figures["run"], name="run", alternative=_alternative(result)),
                html.folded("The picture in numbers", _run_table(report, money)),
                html.table(_SERVED, _served_rows(result), right=(1, 2), caption="Who served the requests"),
                html.table(_LATENCY, _latency_rows(report), right=range(1, len(_LATENCY)), caption="Latency"),
                html.text(_about_latency(report)),
                html.text(_about_plans(report)),
            ),
        ),
        html.Section(
            "The bill",
            (
                html.table(
                    *bill_rows(report.bill, report.month),
                    right=BILL_NUMBERS,
                    strong=[len(report.bill.lines)],
                    caption="The bill of the period, and of a month of such periods",
                ),
                *map(html.text, filter(None, [unchecked_note(report.bill)])),
            ),
        ),
        html.Section("Competitors", _compared_parts(report, instance_type)),
        html.Section(
            "Cost against the share served from memory",
            (
                html.picture(figures["pareto"], name="pareto", alternative=_PARETO),
                html.text(PARETO_NOTE),
                html.folded("The picture in numbers", *_front_tables(report)),
            ),
        ),
    ]
    return html.page(title, sections, lead=f"{_lead(report)} {replayed}")


def csv_lines(report: Report) -> Iterator[str]:
    """Yield a CSV header, then a line per request: arrival, key (if the trace has keys), tier."""
    trace, tiers = report.trace, report.result.tiers
    names = {"S": "s3", "L": "lambda", "R": "redis"}
    has_keys = trace.key_ids is not None
    yield "arrival_s,key,tier\n" if has_keys else "arrival_s,tier\n"
    keys = [f"{_quoted(key)}," for key in trace.keys] if has_keys else [""]
    key_ids = trace.key_ids.tolist() if trace.key_ids is not None else [0] * len(tiers)
    for at_us, key_id, tier in zip(trace.arrivals_us.tolist(), key_ids, tiers, strict=True):
        yield f"{at_us // US_PER_S}.{at_us % US_PER_S:06d},{keys[key_id]}{names[tier]}\n"


def _lead(report: Report) -> str:
    result = report.whole
    objects = f" for {count_text(report.demand.objects, 'object')}" if report.demand.objects > 1 else ""
    lasts = duration_text(report.demand.period_us / US_PER_S)
    return (
        f"{count_text(result.n, 'request')}{objects} in {lasts}, {result.in_memory_pct:.2f} % from memory,"
        f" {number_text(report.bill.usd)} USD at the prices of {report.bill.sheet}."
    )


def _served_rows(result: RunResult) -> list[tuple[str, ...]]:
    counts = (("S3", result.n_s3), ("Lambda", result.n_lambda), ("Redis", result.n_redis))
    return [(name, f"{n:,}", f"{100 * n / max(result.n, 1):.2f}") for name, n in counts]


def _run_table(report: Report, money: Money) -> str:
    """Return a table of requests, tier shares and bills in at most twelve time steps."""
    first_us, lasts_us = money.at_us[0], money.at_us[-1] - money.at_us[0]
    step_us = step_s(lasts_us, most=_STEPS) * US_PER_S
    since_us = report.trace.arrivals_us[: report.result.n] - first_us
    shares = shares_of(since_us, report.result.tiers, step_us // US_PER_S)
    accounts = (f"{account.name}, USD" for account in money.accounts)
    header = ("from", "requests", "S3 %", "Lambda %", "Redis %", *accounts)
    rows = []
    for i in range(-(-lasts_us // step_us)):
        redis, cache_function, s3 = shares.served[:, i].tolist() if i < len(shares.counts) else (0, 0, 0)
        count = redis + cache_function + s3
        pct = [f"{100 * n / count:.1f}" if count else "" for n in (s3, cache_function, redis)]
        last = bisect_right(money.at_us, first_us + (i + 1) * step_us) - 1
        billed = [number_text(account.usd[last]) for account in money.accounts]
        rows.append((duration_text(i * step_us / US_PER_S), f"{count:,}", *pct, *billed))
    caption = "Requests, shares of the tiers, and bills so far at the end of each step"
    return html.table(header, rows, right=range(1, len(header)), caption=caption)


def _compared_parts(report: Report, instance_type: str) -> tuple[str, ...]:
    """Return a table with one competitor of each kind, a folded table of all systems, and the break-even note."""
    shown = representative(report.compared, instance_type)

    def table_of(systems: Sequence[ComparedSystem], caption: str) -> str:
        ours = [i for i, system in enumerate(systems) if system.name == OURS]
        return html.table(*comparison_rows(systems), right=COMPARISON_NUMBERS, strong=ours, caption=caption)

    return (
        table_of(shown, "Burstcache and one competitor of each kind"),
        html.folded(f"All {len(report.compared)} systems", table_of(report.compared, "Burstcache and all competitors")),
        html.text(cheaper_note(report.compared)),
    )


def _front_tables(report: Report) -> list[str]:
    """Return a table per policy, with a row for each setting of its knob."""
    header = ("memory %", "USD")
    return [
        html.table(header, [(f"{pct:.2f}", number_text(usd)) for pct, usd in front], right=(0, 1), caption=name)
        for name, front in report.fronts.items()
    ]


def _alternative(result: RunResult) -> str:
    shares = ", ".join(f"{name} {share} %" for name, _, share in _served_rows(result))
    return f"Requests over time, the share of each tier ({shares} in total), run times of caches, and bills so far"


def _latency_rows(report: Report) -> list[tuple[str, ...]]:
    def row(name: str, latency: LatencySummary) -> tuple[str, ...]:
        values = (latency.mean_ms, latency.p50_ms, latency.p90_ms, latency.p95_ms, latency.p99_ms)
        return (name, *(f"{ms:.2f}" if ms < _LONG_MS else f"{ms:,.0f}" for ms in values))

    return [row("with Burstcache", report.latency), row("S3 alone", report.latency_without)]


def _about_latency(report: Report) -> str:
    return (
        "Latencies are assumed, not simulated: each tier has a mean time to the first byte and a bandwidth"
        f" (S3 alone {report.latency_without.mean_ms:.3g} ms), and requests spread around the mean."
    )


def _about_plans(report: Report) -> str:
    if report.plans is None:
        return "With many objects, the lanes show how many cache functions and nodes ran at once."
    costs = "Amounts next to the lanes cover the cache alone (function, node, S3). All others cover the whole bill."
    if report.plans.optimum_usd is None:
        return f"{costs} The optimum is planned at the prices of {OPTIMUM_PRICES}, so it has no amount here."
    return f"{costs} The offline algorithm pays for no request, the optimum does."


def _quoted(key: str) -> str:
    """Return a key as a CSV cell."""
    return '"' + key.replace('"', '""') + '"' if any(mark in key for mark in '",\r\n') else key
