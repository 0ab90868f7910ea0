"""The answer of `burstcache advise` as a self-contained page with pictures."""

from __future__ import annotations

from burstcache_sim.bill.comparison import OURS
from burstcache_sim.choose.advise.advice import Advice
from burstcache_sim.choose.advise.limits import assumptions
from burstcache_sim.choose.advise.samconfig import toml_text
from burstcache_sim.choose.advise.systems import System
from burstcache_sim.choose.advise.text import (
    bill_rows,
    deploy_text,
    lasting_rows,
    lasting_text,
    latency_rows,
    log_text,
    policy_text,
    system_rows,
    value_text,
)
from burstcache_sim.choose.advise.verdict import break_even_lines, rivals, verdict_lines
from burstcache_sim.output import write_lines
from burstcache_sim.report import html
from burstcache_sim.report.cost_figures import pareto_figure

_TITLE = "Should Burstcache be deployed for this log?"


def write_page(path: str, advice: Advice) -> None:
    """Write the page; raise `InvalidSettingError` if the file cannot be written."""
    write_lines("--out", path, [advice_page(advice)])


def advice_page(advice: Advice) -> str:
    """Return the page as HTML."""
    header, rows = system_rows(advice)
    ours = [i for i, row in enumerate(rows) if row[0] == OURS]
    sections = [
        html.Section("Answer", tuple(html.text(line) for line in (*verdict_lines(advice), value_text(advice)))),
        html.Section(
            "With Burstcache",
            (
                html.text(policy_text(advice)),
                html.table(*latency_rows(advice), right=range(1, 6), caption="Latency with Burstcache and without"),
            ),
        ),
        html.Section("How well it lasts", (html.text(lasting_text(advice)), *_lasting(advice))),
        html.Section("Its bill", (html.table(*bill_rows(advice), right=(1, 2), caption="The bill of a month"),)),
        html.Section(
            "What else one could buy",
            (
                html.table(header, rows, right=(1, 2, 3, 4), strong=ours, caption="What one could buy, for a month"),
                _pareto(advice),
            ),
        ),
        html.Section("Break-even", (*(html.text(line.lstrip("- ")) for line in break_even_lines(advice)[1:]),)),
        html.Section("To deploy", (html.text(deploy_text(advice)), _code(advice))),
        html.Section("What this rests on", tuple(html.text(line) for line in assumptions(advice))),
    ]
    return html.page(_TITLE, sections, lead=log_text(advice))


def _lasting(advice: Advice) -> list[str]:
    return (
        [html.table(*lasting_rows(advice), right=(1, 2, 3), caption="Results in the log's second half")]
        if advice.lasting
        else []
    )


def _code(advice: Advice) -> str:
    from html import escape

    return f'<pre style="white-space: pre-wrap">{escape(toml_text(advice.template))}</pre>'


def _pareto(advice: Advice) -> str:
    fronts = {
        "thesis's policy": [(tried.in_memory_pct, tried.usd_per_month) for tried in advice.tuned.front],
        f"{advice.simulated_policy.title} policy (not live)": [
            (t.in_memory_pct, t.usd_per_month) for t in advice.tuned_knob.front
        ],
    }
    points = {system.name: (system.in_memory_pct, system.usd_per_month) for system in _shown(advice)}
    figure = pareto_figure(fronts, points=points, cost_label="cost [USD a month]")
    return html.picture(figure, name="pareto", alternative="Cost of each setting against the share served from memory")


def _shown(advice: Advice) -> list[System]:
    """Return what the pictures compare with: S3 alone and the best of each kind."""
    return [advice.others[0], *rivals(advice)]
