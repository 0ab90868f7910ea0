"""The page of `burstcache advise`: the advice as self-contained HTML with pictures."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from burstcache.core.parameters import US_PER_S
from burstcache_sim.bill.comparison import OURS
from burstcache_sim.choose.advise.advice import Advice
from burstcache_sim.choose.advise.large_objects import LargeObjects, large_objects_lines
from burstcache_sim.choose.advise.limits import assumptions
from burstcache_sim.choose.advise.steps import stack_steps, steps
from burstcache_sim.choose.advise.systems import System
from burstcache_sim.choose.advise.text import (
    SYSTEM_NUMBERS,
    best_of_each_kind,
    bill_rows,
    lasting_rows,
    lasting_text,
    latency_rows,
    month_text,
    policy_text,
    shown,
    system_rows,
    the_rest,
    value_text,
)
from burstcache_sim.choose.advise.unpriced import unpriced_text
from burstcache_sim.choose.advise.verdict import break_even_lines, change_lines, verdict_lines
from burstcache_sim.output import write_lines
from burstcache_sim.report import html
from burstcache_sim.report.cost_figures import PARETO_NOTE, pareto_figure


def write_page(path: str, advice: Advice, log: str) -> None:
    """Write the page for a log of this name, or raise `InvalidSettingError` if the file cannot be written."""
    write_lines("--out", path, [advice_page(advice, log)])


def advice_page(advice: Advice, log: str) -> str:
    """Return the page for a log of this name as HTML."""
    sections = [
        html.Section(
            "Answer",
            (
                *map(html.text, verdict_lines(advice)),
                *_steps(steps(advice)),
                html.text(value_text(advice)),
                _systems(advice, shown(advice), "The stack, S3 and the best of each latency class; USD a month"),
            ),
        ),
        html.Section("What would change it", tuple(map(html.text, change_lines(advice)))),
        html.Section(
            "With the stack",
            (
                html.text(policy_text(advice)),
                html.table(*latency_rows(advice), right=range(1, 6), caption="Latency"),
                html.text(lasting_text(advice)),
                *_lasting(advice),
                html.folded(
                    f"Its bill, {advice.ours.system.usd_per_month:,.2f} USD a month",
                    html.table(*bill_rows(advice), right=(1, 2), caption="The bill of a month"),
                ),
            ),
        ),
        html.Section(
            "Competitors",
            (
                _systems(advice, best_of_each_kind(advice), "The best of each kind; USD a month"),
                html.folded("All others", _systems(advice, the_rest(advice), "All others; USD a month")),
                _pareto(advice),
                html.text(PARETO_NOTE),
            ),
        ),
        *([_large(advice.large, advice.net_usd)] if advice.large else []),
        html.Section("Break-even", tuple(map(html.text, break_even_lines(advice)))),
        html.Section("The stack", tuple(_steps(stack_steps(advice)))),
        html.Section("Assumptions", tuple(map(html.text, (*assumptions(advice), *_unpriced(advice))))),
    ]
    return html.page(f"What to use for {log}", sections, lead=f"{_source(advice)}. {month_text(advice)}")


def _source(advice: Advice) -> str:
    """Return the dates of the log, if it has any, and the price sheet."""
    trace, prices = advice.workload.trace, f"prices: {advice.workload.prices.name}"
    if trace.origin_us is None:
        return prices.capitalize()
    ends_us = (trace.origin_us + int(trace.arrivals_us[0]), trace.origin_us + int(trace.arrivals_us[-1]))
    first, last = (datetime.fromtimestamp(us // US_PER_S, UTC).date().isoformat() for us in ends_us)
    return f"{first} to {last}, {prices}"


def _systems(advice: Advice, systems: Sequence[System], caption: str) -> str:
    verdict = [i for i, system in enumerate(systems) if system.name == advice.winner.name]
    return html.table(*system_rows(advice, systems), right=SYSTEM_NUMBERS, strong=verdict, caption=caption)


def _large(large: LargeObjects, verdict_net_usd: float) -> html.Section:
    return html.Section("Large objects", tuple(map(html.text, large_objects_lines(large, verdict_net_usd))))


def _lasting(advice: Advice) -> list[str]:
    return (
        [html.table(*lasting_rows(advice), right=(1, 2, 3), caption="Results in the log's second half")]
        if advice.lasting
        else []
    )


def _unpriced(advice: Advice) -> list[str]:
    missing = unpriced_text(advice.workload.prices)
    return [missing] if missing else []


def _steps(to_do: tuple[str, str]) -> list[str]:
    """Return the next step and the lines to copy as HTML."""
    from html import escape

    sentence, lines = to_do
    code = f'<pre style="white-space: pre-wrap">{escape(lines)}</pre>'
    return [part for part in (html.text(sentence) if sentence else "", code if lines else "") if part]


def _pareto(advice: Advice) -> str:
    fronts = {
        "thesis's policy": [(tried.in_memory_pct, tried.usd_per_month) for tried in advice.tuned.front],
    }
    points = {system.name: (system.in_memory_pct, system.usd_per_month) for system in _drawn(advice)}
    figure = pareto_figure(fronts, points=points, cost_label="cost [USD a month]")
    return html.picture(figure, name="pareto", alternative="Cost of each setting against the share served from memory")


def _drawn(advice: Advice) -> list[System]:
    """Return the systems drawn as points. Burstcache under the thesis's policy is drawn as a line instead."""
    return [system for system in shown(advice) if system.name != OURS or advice.ours.tried is None]
