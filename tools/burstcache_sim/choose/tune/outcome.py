"""The outcome of `burstcache sim tune` as text, JSON and CSV."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from io import StringIO
from typing import Any

from burstcache.core.parameters import US_PER_S
from burstcache_sim.choose.tune.front import Tried, spread
from burstcache_sim.choose.tune.hold_out import LEAST_REQUESTS, HoldOut
from burstcache_sim.choose.tune.search import Tuned
from burstcache_sim.choose.tune.workload import Workload, excess_text
from burstcache_sim.output import write_lines
from burstcache_sim.policies.registry import WORTH_POLICIES
from burstcache_terminal.text import WIDTH, count_text, duration_text, number_text, table_text, wrapped_text

_ROWS = 20  # rows of the front to print at a terminal
_COLUMNS = ("in_memory_pct", "usd_per_month", "n_s3", "n_lambda", "n_redis", "parameters")


@dataclass(frozen=True, slots=True)
class Found:
    """The outcome of a search and its hold-out validation."""

    policy: str
    aim: str
    workload: Workload
    tuned: Tuned
    best: Tried
    held_out: HoldOut | None


def found_text(found: Found) -> str:
    """Return the outcome for a terminal."""
    best, tuned, workload = found.best, found.tuned, found.workload
    demand, name = workload.demand, "--hit-value-usd" if found.policy in WORTH_POLICIES else "PolicyOverrides"
    log = f"{count_text(demand.requests, 'request')} for {count_text(demand.objects, 'object')}"
    before = f" (and {tuned.candidates_on_part:,} on its first part)" if tuned.candidates_on_part else ""
    lines = [
        wrapped_text(
            f"{log} in {duration_text((demand.last_us - demand.first_us) / US_PER_S)},"
            f" repeated {number_text(float(workload.repeats_per_month))} times a month."
            f"{excess_text(workload)}"
        ),
        wrapped_text(
            f"Tried {tuned.candidates:,} candidates{before} of the {found.policy} policy. Best for {found.aim}"
            f"{', the simplest within 1 %' * (found.policy == 'thesis')}:"
        ),
        "",
        f"  {best.in_memory_pct:.2f} % from memory, {best.usd_per_month:,.2f} USD a month",
        wrapped_text(f"  {name}: {best.text or 'empty, as in the template'}", indent="  "),
    ]
    if found.policy in WORTH_POLICIES:
        per_million = number_text(float(best.text) * 1_000_000).replace(",", "")
        lines.append(f"  In the template: Policy {found.policy}, HitValueUsdPerMillion {per_million}")
    if workload.redirected:
        sent = f"{count_text(workload.redirected, 'request')} for objects too large for a cache"
        lines += ["", wrapped_text(f"{sent} {'is' if workload.redirected == 1 else 'are'} redirected to S3.")]
    lines += ["", _lasting_text(found.held_out)]
    lines += ["", f"Pareto front ({len(tuned.front):,} candidates that no other beats in both cost and hits):"]
    return "\n".join([*lines, _front_table(tuned.front, name)])


def _lasting_text(held_out: HoldOut | None) -> str:
    if held_out is None:
        few = f"one half of the log has fewer than {LEAST_REQUESTS} requests"
        return wrapped_text(f"Overfitting cannot be checked: {few}.")
    header = ("tuned on", "memory %", "USD a month")
    rows = [(on, f"{tried.in_memory_pct:.2f}", f"{tried.usd_per_month:,.2f}") for on, tried in held_out.rows()]
    title = "Check for overfitting (results in the log's second half, for a month):"
    return f"{title}\n{table_text(header, rows, right=(1, 2))}"


def found_fields(found: Found) -> dict[str, Any]:
    """Return the outcome for JSON."""
    tuned, workload, held_out = found.tuned, found.workload, found.held_out
    return {
        "policy": found.policy,
        "is_live": found.policy == "thesis",
        "prices": workload.prices.name,
        "n": workload.demand.requests,
        "redirected_requests": workload.redirected,
        "period_s": workload.demand.period_us / US_PER_S,
        "candidates": tuned.candidates,
        "best": tried_fields(found.best),
        "lasting": [{"tuned_on": on} | tried_fields(tried) for on, tried in held_out.rows()] if held_out else [],
        "front": [tried_fields(tried) for tried in tuned.front],
    }


def tried_fields(tried: Tried) -> dict[str, Any]:
    """Return a candidate for JSON."""
    return {
        "in_memory_pct": tried.in_memory_pct,
        "usd_per_month": tried.usd_per_month,
        "n_s3": tried.result.n_s3,
        "n_lambda": tried.result.n_lambda,
        "n_redis": tried.result.n_redis,
        "text": tried.text,
        "parameters": tried.policy.fields(),
    }


def write_csv(path: str, front: Sequence[Tried]) -> None:
    """Write a front as CSV, or raise `InvalidSettingError` if the file cannot be written."""
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_COLUMNS)
    for tried in front:
        r = tried.result
        writer.writerow((tried.in_memory_pct, tried.usd_per_month, r.n_s3, r.n_lambda, r.n_redis, tried.text))
    write_lines("--csv", path, [text.getvalue()])


def _front_table(front: Sequence[Tried], name: str) -> str:
    """Return a table of front candidates, evenly spread."""
    header = ("memory %", "USD a month", "S3", "Lambda", "Redis", name)
    return table_text(header, [_cells(tried) for tried in spread(front, _ROWS)], right=range(5), most=WIDTH)


def _cells(tried: Tried) -> tuple[str, ...]:
    result = tried.result
    counts = [f"{n:,}" for n in (result.n_s3, result.n_lambda, result.n_redis)]
    return f"{tried.in_memory_pct:.2f}", f"{tried.usd_per_month:,.2f}", *counts, tried.text
