"""The text of `burstcache advise`: the verdict and its reasons in a few lines, everything else with `--long`."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

from burstcache.core.parameters import US_PER_S
from burstcache_sim.bill.demand import sample_rate
from burstcache_sim.choose.advise.advice import Advice
from burstcache_sim.choose.advise.configurations import setup_text
from burstcache_sim.choose.advise.large_objects import large_objects_lines
from burstcache_sim.choose.advise.limits import assumptions
from burstcache_sim.choose.advise.steps import stack_steps, steps
from burstcache_sim.choose.advise.systems import System, for_sale, shown_pct
from burstcache_sim.choose.advise.unpriced import unpriced_text
from burstcache_sim.choose.advise.verdict import best_of, break_even_lines, by_net_value, change_lines, verdict_lines
from burstcache_sim.choose.tune.hold_out import LEAST_REQUESTS
from burstcache_sim.choose.tune.search import Tuned
from burstcache_sim.choose.tune.workload import excess_text
from burstcache_sim.latency import LatencySummary
from burstcache_terminal.text import (
    WIDTH,
    count_text,
    duration_text,
    each_usd_text,
    fixed_text,
    footnotes,
    number_text,
    table_text,
    usd_text,
    wrapped_text,
)

Table = tuple[tuple[str, ...], list[tuple[str, ...]]]  # header, rows
SYSTEM_NUMBERS = range(1, 6)  # right-aligned columns
_LATENCY_HEADER = ("", "mean ms", "p50", "p90", "p95", "p99")
_RIVALS = 3  # minimum number of competitors to show
_IN_THE_READER_MS = 0.1  # first bytes below this come from readers' memory


def advice_text(advice: Advice, *, is_long: bool = False) -> str:
    """Return the advice for a terminal: verdict, alternatives, sensitivity, and with `is_long` all details."""
    parts = [
        _lines(verdict_lines(advice)),
        *_steps(steps(advice)),
        f"{wrapped_text(f'{month_text(advice)} {value_text(advice)}')}\n{_systems_text(advice, shown(advice))}",
        _listed("What would change it:", change_lines(advice)),
    ]
    if missing := unpriced_text(advice.workload.prices):
        parts.append(_lines([missing]))
    if advice.large:
        parts.append(_lines(large_objects_lines(advice.large, advice.net_usd)))
    if is_long:
        parts += _details(advice)
    if is_long:
        parts += [] if advice.deploys else _steps(stack_steps(advice), "The stack, if you want it anyway. ")
        parts.append(_listed("Assumptions:", assumptions(advice)))
    else:
        parts.append(_lines(["--long: parameters, latencies, the whole bill, all systems, assumptions."]))
    return "\n\n".join(parts)


def shown(advice: Advice) -> list[System]:
    """Return the short table's systems, best first: the best of each latency class, Burstcache and S3 alone.

    Behind a front door, all systems are in one class. The best systems of further kinds then fill the table.
    """
    best = best_of(advice, lambda one: "reader" if one.first_byte_ms < _IN_THE_READER_MS else one.latency_class)
    further = [system for system in best_of(advice, lambda system: system.kind) if system not in best]
    best += further[: max(0, _RIVALS - len(best))]
    return _with_ours(best, advice)


def _with_ours(best: Sequence[System], advice: Advice) -> list[System]:
    """Add the verdict, the stack (if it has hits) and S3 alone to the systems, and return all of them, best first."""
    ours = [advice.ours.system] if shown_pct(advice.ours.system.in_memory_pct) else []
    named = {system.name: system for system in [*ours, *best, advice.winner, advice.others[0]]}
    return by_net_value(list(named.values()), advice)


def best_of_each_kind(advice: Advice) -> list[System]:
    """Return Burstcache, S3 alone and the best competitor of each kind, best first."""
    return _with_ours(best_of(advice, lambda system: system.kind), advice)


def the_rest(advice: Advice) -> list[System]:
    """Return the systems that `best_of_each_kind` leaves out, best first, then the ruled-out systems."""
    best = best_of_each_kind(advice)
    rest = [system for system in advice.others if system not in best]
    sold = for_sale(rest)
    return [*by_net_value(sold, advice), *(system for system in rest if system not in sold)]


def month_text(advice: Advice) -> str:
    """Describe the log and the month."""
    demand, repeats, trace = advice.workload.demand, float(advice.workload.repeats_per_month), advice.workload.trace
    objects = count_text(demand.objects, "object")
    if trace.objects:
        whole = round(len(set(trace.objects)) / sample_rate(trace))
        objects = f"{count_text(demand.objects, 'range')} of {count_text(whole, 'object')}"
    log = f"{count_text(demand.requests, 'request')} for {objects}"
    lasts = duration_text((demand.last_us - demand.first_us) / US_PER_S)
    times = f"{number_text(repeats, digits=3)} times" if repeats != 1 else "once"
    month = f"repeated {times} a month: {number_text(demand.requests * repeats)} requests."
    return f"{log} in {lasts}, {month}{excess_text(advice.workload)}"


def value_text(advice: Advice) -> str:
    """Describe the value of latency."""
    value = advice.value
    if value.usd_per_hit:
        return f"Value of a hit: {each_usd_text(value.usd_per_hit)}."
    if value.usd_per_ms:
        return f"Value of a millisecond saved: {each_usd_text(value.usd_per_ms)}."
    return "No value of latency is set (--hit-value-usd or --ms-value-usd), so the lowest bill wins."


def policy_text(advice: Advice) -> str:
    """Describe the stack's parts, its policy, and the share of requests that each tier answers."""
    ours, result = advice.ours, advice.ours.result
    if ours.tried is None:
        shares = [f"{100 * n / result.n:.1f} % by {tier}" for n, tier in _tiers(advice) if n]
        how = f"the {ours.policy} policy boots and stops nodes by use" if ours.policy else "nothing boots on demand"
        return f"Parts: {setup_text(ours.setup)}; {how}. Answered without S3: {', '.join(shares) or 'none'}."
    shares = [f"{100 * n / result.n:.1f} % by {tier}" for n, tier in _tiers(advice)]
    policy = f"The thesis's policy with the simplest of the best parameters among {candidates_text(advice.tuned)}"
    if ours.system.gain.net_usd(advice.value) <= 0 and result.n > result.n_s3:
        policy += "; it pays at the lowest value of a hit"
    return f"{policy}. {result.in_memory_pct:.1f} % of the requests are answered from memory: {', '.join(shares)}."


def candidates_text(tuned: Tuned) -> str:
    """Describe the number of candidates."""
    before = f", after {tuned.candidates_on_part:,} on its first part" if tuned.candidates_on_part else ""
    return f"{tuned.candidates:,} candidates on the whole log{before}"


def latency_rows(advice: Advice) -> Table:
    """Return the latency distributions with Burstcache and without."""
    return _LATENCY_HEADER, [
        ("with the stack", *_latency_cells(advice.latency)),
        ("S3 alone", *_latency_cells(advice.latency_without)),
    ]


def lasting_text(advice: Advice) -> str:
    """Return the introduction to `lasting_rows`, or the reason for an empty table."""
    if advice.ours.tried is None:
        return "No policy parameters are tuned, so nothing can overfit this log."
    if not advice.lasting:
        few = f"one half of the log has fewer than {LEAST_REQUESTS} requests"
        return f"Overfitting cannot be checked: {few}."
    expect = "On future requests, expect to lose as much as the first line loses against the second."
    return f"Check for overfitting: results of tuned parameters in the log's second half, for a month. {expect}"


def lasting_rows(advice: Advice) -> Table:
    """Return results in the log's second half, for parameters tuned on its first half and for two baselines."""
    is_worth_it = any(one.net_usd > 0 for one in advice.lasting)
    last = "net USD a month" if is_worth_it else "USD above S3 per million hits"
    return ("tuned on", "memory %", "USD a month", last), [
        (
            one.tuned_on,
            f"{one.tried.in_memory_pct:.1f}",
            f"{one.tried.usd_per_month:,.2f}",
            f"{one.net_usd:,.2f}" if is_worth_it else _per_million(one.usd_per_hit),
        )
        for one in advice.lasting
    ]


def bill_rows(advice: Advice) -> Table:
    """Return the stack's bill, fixed items first, then variable items."""
    rows: list[tuple[str, ...]] = []
    for is_fixed, title in ((True, "fixed, with or without requests"), (False, "variable")):
        lines = [line for line in advice.ours.system.month.lines if line.is_fixed is is_fixed]
        rows.append((title, "", f"{float(sum(line.usd_exact for line in lines)):,.2f}"))
        rows += [(f"  {line.text}", fixed_text(line.usd, 2), "") for line in lines]
    return ("item", "USD a month", "sum"), rows


def system_rows(advice: Advice, systems: Sequence[System]) -> Table:
    """Return one row per system, with a note in the last cell."""
    header = ("system", "hits %", "mean ms", "a month", "free tiers", "net USD", "note")
    return header, [_system_cells(system, advice) for system in systems]


def _details(advice: Advice) -> list[str]:
    """Return the parts that only `--long` prints."""
    usd = f"{advice.ours.system.usd_per_month:,.2f} USD a month"
    return [
        f"With the stack:\n{wrapped_text(policy_text(advice))}",
        table_text(*latency_rows(advice), right=range(1, 6)),
        _lasting(advice),
        f"Its bill, {usd}:\n{table_text(*bill_rows(advice), right=(1, 2), most=WIDTH)}",
        f"The best of each kind:\n{_systems_text(advice, best_of_each_kind(advice))}",
        f"All others:\n{_systems_text(advice, the_rest(advice))}",
        _listed("Break-even:", break_even_lines(advice)),
    ]


def _systems_text(advice: Advice, systems: Sequence[System]) -> str:
    header, rows = system_rows(advice, systems)
    marks, notes = footnotes(row[-1] for row in rows)
    marked = [(f"{name}{mark}", *cells) for (name, *cells, _), mark in zip(rows, marks, strict=True)]
    return "\n".join([table_text(header[:-1], marked, right=SYSTEM_NUMBERS, most=WIDTH), *notes])


def _system_cells(system: System, advice: Advice) -> tuple[str, ...]:
    plan = f"free tiers: with the plan {system.plan}" if system.plan else ""
    note = f"ruled out: {system.ruled_out}" if system.ruled_out else system.note
    if system is advice.ours.system and advice.ours.never_stops:
        note = f"{note}; in effect always on"
    return (
        system.name,
        f"{system.in_memory_pct:.1f}",
        f"{system.mean_ms:.1f}",
        usd_text(system.usd_per_month),
        usd_text(system.free_usd_per_month),
        usd_text(system.gain.net_usd(advice.value)),
        "; ".join(filter(None, [note, plan])),
    )


def _lasting(advice: Advice) -> str:
    rows = f"\n{table_text(*lasting_rows(advice), right=(1, 2, 3), most=WIDTH)}" if advice.lasting else ""
    return wrapped_text(lasting_text(advice)) + rows


def _tiers(advice: Advice) -> list[tuple[int, str]]:
    result = advice.ours.result
    if advice.ours.tried is not None:
        return [(result.n_lambda, "cache functions"), (result.n_redis, "Redis")]
    return [
        (result.n_memory, "the readers' memory"),
        (result.n_redis, "Redis"),
        (result.n_express, "S3 Express"),
    ]


def _latency_cells(latency: LatencySummary) -> tuple[str, ...]:
    values = (latency.mean_ms, latency.p50_ms, latency.p90_ms, latency.p95_ms, latency.p99_ms)
    return tuple(f"{value:.1f}" for value in values)


def _per_million(usd_per_hit: float) -> str:
    return f"{usd_per_hit * 1e6:,.2f}" if isfinite(usd_per_hit) else "no hit"


def _steps(to_do: tuple[str, str], before: str = "") -> list[str]:
    sentence, lines = to_do
    return [part for part in (wrapped_text(before + sentence) if sentence else "", lines) if part]


def _lines(lines: Sequence[str]) -> str:
    return "\n".join(map(wrapped_text, lines))


def _listed(title: str, lines: Sequence[str]) -> str:
    return "\n".join([title, *(wrapped_text(f"- {line}", indent="  ") for line in lines)])
