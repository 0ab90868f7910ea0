"""The answer of `burstcache advise` as text."""

from __future__ import annotations

from burstcache.core.parameters import US_PER_S
from burstcache_sim.choose.advise.advice import Advice
from burstcache_sim.choose.advise.limits import assumptions
from burstcache_sim.choose.advise.samconfig import toml_text
from burstcache_sim.choose.advise.systems import System
from burstcache_sim.choose.advise.verdict import break_even_lines, verdict_lines
from burstcache_sim.choose.tune.hold_out import LEAST_REQUESTS
from burstcache_sim.choose.tune.search import Tuned
from burstcache_sim.latency import LatencySummary
from burstcache_terminal.text import count_text, duration_text, each_usd_text, number_text, table_text

Table = tuple[tuple[str, ...], list[tuple[str, ...]]]  # header, rows
_LATENCY_HEADER = ("", "mean ms", "p50", "p90", "p95", "p99")


def advice_text(advice: Advice) -> str:
    """Return the whole answer for a terminal."""
    ours = advice.ours.system
    parts = [
        f"{log_text(advice)}\n{value_text(advice)}",
        "\n".join(verdict_lines(advice)),
        f"With Burstcache: {policy_text(advice)}",
        table_text(*latency_rows(advice), right=range(1, 6)),
        _lasting(advice),
        f"Its bill, {ours.usd_per_month:.2f} USD a month:\n{table_text(*bill_rows(advice), right=(1, 2))}",
        f"What else one could buy:\n{table_text(*system_rows(advice), right=(1, 2, 3, 4))}",
        "\n".join(break_even_lines(advice)),
        f"{deploy_text(advice)}\n\n{toml_text(advice.template)}",
        "\n".join(["Assumptions:", *(f"- {line}" for line in assumptions(advice))]),
    ]
    return "\n\n".join(parts)


def log_text(advice: Advice) -> str:
    """Return a description of the log and of the month."""
    demand, repeats = advice.workload.demand, float(advice.workload.repeats_per_month)
    what = f"{count_text(demand.requests, 'request')} for {count_text(demand.objects, 'object')}"
    lasts = duration_text((demand.last_us - demand.first_us) / US_PER_S)
    month = f"a month counts as this log {number_text(repeats)} times"
    return f"{what} in {lasts}; {month}, {number_text(demand.requests * repeats)} requests."


def value_text(advice: Advice) -> str:
    """Return what latency is worth, in words."""
    value = advice.value
    if value.usd_per_hit:
        return f"A request answered from memory is worth {each_usd_text(value.usd_per_hit)} (as you said)."
    if value.usd_per_ms:
        return f"A millisecond saved is worth {each_usd_text(value.usd_per_ms)} (as you said)."
    return "What latency is worth is not known (--hit-value-usd or --ms-value-usd), so money alone decides."


def policy_text(advice: Advice) -> str:
    """Return the policy and what it serves from where."""
    ours, result = advice.ours, advice.ours.result
    shares = [f"{100 * n / result.n:.1f} % by {what}" for n, what in _tiers(advice)]
    tried = f"the thesis's policy, the plainest of the best of {candidates_text(advice.tuned)}"
    if ours.system.gain.net_usd(advice.value) <= 0 and result.n > result.n_s3:
        tried += ", the one that pays at the lowest value of a hit"
    return f"{tried}.\n{result.in_memory_pct:.1f} % of the requests are answered from memory: {', '.join(shares)}."


def candidates_text(tuned: Tuned) -> str:
    """Return how many candidates were tried."""
    before = f", after {tuned.candidates_on_part:,} on its first part" if tuned.candidates_on_part else ""
    return f"{tuned.candidates:,} candidates on the whole log{before}"


def latency_rows(advice: Advice) -> Table:
    """Return the distribution of latencies with Burstcache and without."""
    return _LATENCY_HEADER, [
        ("with Burstcache", *_latency_cells(advice.latency)),
        ("S3 read directly", *_latency_cells(advice.latency_without)),
    ]


def lasting_text(advice: Advice) -> str:
    """Return what `lasting_rows` shows, or why there is nothing to show."""
    if not advice.lasting:
        few = f"one half of the log has fewer than {LEAST_REQUESTS} requests"
        return f"How well tuned parameters last cannot be checked: {few}."
    expect = "Expect to fall as far behind the figures above as the first line is behind the second."
    return f"How well tuned parameters last: their results in the second half of the log, for a month. {expect}"


def lasting_rows(advice: Advice) -> Table:
    """Return what parameters tuned on the log's first half give in its second, with what to compare."""
    is_worth_it = any(one.net_usd > 0 for one in advice.lasting)
    last = "net USD a month" if is_worth_it else "USD above S3 per million hits"
    return ("tuned on", "memory %", "USD a month", last), [
        (
            one.tuned_on,
            f"{one.tried.in_memory_pct:.1f}",
            f"{one.tried.usd_per_month:,.2f}",
            f"{one.net_usd if is_worth_it else one.usd_per_hit * 1e6:,.2f}",
        )
        for one in advice.lasting
    ]


def bill_rows(advice: Advice) -> Table:
    """Return this system's bill, fixed items first, then what the requests add."""
    rows: list[tuple[str, ...]] = []
    for is_fixed, title in ((True, "fixed, with or without requests"), (False, "variable")):
        lines = [line for line in advice.ours.system.month.lines if line.is_fixed is is_fixed]
        usd = float(sum(line.usd_exact for line in lines))
        rows.append((title, "", f"{usd:.2f}"))
        rows += [(f"  {line.text}", f"{line.usd:.2f}", "") for line in lines]
    return ("item", "USD a month", "sum"), rows


def system_rows(advice: Advice) -> Table:
    """Return what one could buy, best net value first, then what is not for sale."""
    header = ("system", "USD a month", "memory %", "mean ms", "net USD a month", "note")
    systems = sorted(
        [advice.ours.system, *advice.others], key=lambda s: (bool(s.why_not), -s.gain.net_usd(advice.value))
    )
    return header, [_system_cells(system, advice) for system in systems]


def deploy_text(advice: Advice) -> str:
    """Return how to deploy the parameters."""
    start = "Put this" if advice.deploys else "To deploy it anyway, put this"
    return f"{start} into samconfig.toml (and your OriginBucketName), then `sam build && sam deploy`:"


def _system_cells(system: System, advice: Advice) -> tuple[str, ...]:
    return (
        system.name,
        f"{system.usd_per_month:,.2f}",
        f"{system.in_memory_pct:.1f}",
        f"{system.mean_ms:.1f}",
        f"{system.gain.net_usd(advice.value):,.2f}",
        f"ruled out: {system.why_not}" if system.why_not else system.note,
    )


def _lasting(advice: Advice) -> str:
    rows = f"\n{table_text(*lasting_rows(advice), right=(1, 2, 3))}" if advice.lasting else ""
    return lasting_text(advice) + rows


def _tiers(advice: Advice) -> list[tuple[int, str]]:
    result = advice.ours.result
    return [(result.n_lambda, "cache functions"), (result.n_redis, "Redis")]


def _latency_cells(latency: LatencySummary) -> tuple[str, ...]:
    values = (latency.mean_ms, latency.p50_ms, latency.p90_ms, latency.p95_ms, latency.p99_ms)
    return tuple(f"{value:.1f}" for value in values)
