"""The words of `burstcache advise`."""

from __future__ import annotations

from burstcache.core.parameters import US_PER_S
from burstcache.sim.advise.advice import Advice, BreakEvenValue
from burstcache.sim.advise.limits import assumptions, duration_text
from burstcache.sim.advise.samconfig import toml_text
from burstcache.sim.advise.systems import System, choices
from burstcache.sim.costs.usage import US_PER_H
from burstcache.sim.latency import LatencySummary
from burstcache.sim.report.table import aligned
from burstcache.sim.tune.search import Tuned

Table = tuple[tuple[str, ...], list[tuple[str, ...]]]  # header, rows
_LATENCY_HEADER = ("", "mean ms", "p50", "p90", "p95", "p99")


def advice_text(advice: Advice) -> str:
    """Return the whole answer for a terminal."""
    ours = advice.ours.system
    parts = [
        f"{log_text(advice)}\n{value_text(advice)}",
        "\n".join(verdict_lines(advice)),
        f"With Burstcache: {policy_text(advice)}",
        aligned(*latency_rows(advice), right=range(1, 6)),
        f"Its bill, {ours.usd_per_month:.2f} USD a month:\n{aligned(*bill_rows(advice), right=(1, 2))}",
        f"What else one could buy:\n{aligned(*system_rows(advice), right=(1, 2, 3, 4))}",
        "\n".join(break_even_lines(advice)),
        f"{deploy_text(advice)}\n\n{toml_text(advice.template)}",
        "\n".join(["What this rests on:", *(f"- {line}" for line in assumptions(advice))]),
    ]
    return "\n\n".join(parts)


def log_text(advice: Advice) -> str:
    """Return what the log is, and what a month is made of."""
    demand, repeats = advice.workload.demand, float(advice.workload.repeats_per_month)
    what = f"{_count(demand.requests, 'request')} for {_count(demand.objects, 'object')}"
    lasts = duration_text((demand.last_us - demand.first_us) / US_PER_S)
    month = f"a month is taken as this log {_amount(repeats)} times"
    return f"{what} in {lasts}; {month}, {_amount(demand.requests * repeats)} requests."


def value_text(advice: Advice) -> str:
    """Return what latency is worth, in words."""
    value = advice.value
    if value.usd_per_hit:
        return f"A request answered from memory is worth {_usd(value.usd_per_hit)} (as you said)."
    if value.usd_per_ms:
        return f"A millisecond saved is worth {_usd(value.usd_per_ms)} (as you said)."
    return "What latency is worth is not known (--hit-value-usd or --ms-value-usd), so money alone decides."


def verdict_lines(advice: Advice) -> list[str]:
    """Return the answer: to deploy or not, and why."""
    ours, winner, value = advice.ours.system, advice.winner, advice.value
    if advice.deploys:
        second = advice.runner_up
        ahead_usd = ours.gain.net_usd(value) - second.gain.net_usd(value)
        cost = f"DEPLOY BURSTCACHE. It costs {ours.usd_per_month:,.2f} USD a month,"
        return [
            f"{cost} and is worth {ours.gain.net_usd(value):,.2f} more than S3 alone, that cost taken off.",
            f"The next best, {second.name}, is worth {ahead_usd:,.2f} less.",
        ]
    lines = [f"DO NOT DEPLOY BURSTCACHE: {_why(advice)}"]
    if not value.is_known:
        lines += _pays_lines(advice)
    elif winner.name != "s3-only":
        lines.append(
            f"Net value a month: {winner.name} {winner.gain.net_usd(value):,.2f} USD,"
            f" Burstcache {ours.gain.net_usd(value):,.2f} USD, S3 alone 0."
        )
    return lines


def policy_text(advice: Advice) -> str:
    """Return the policy and what it serves from where."""
    ours, result = advice.ours, advice.ours.result
    shares = [f"{100 * n / result.n:.1f} % by {what}" for n, what in _tiers(advice)]
    tried = f"the thesis's policy, best of {candidates_text(advice.tuned)}"
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


def bill_rows(advice: Advice) -> Table:
    """Return this system's bill, fixed items first, then what the requests add."""
    ours, repeats = advice.ours.system, advice.workload.repeats_per_month
    rows: list[tuple[str, ...]] = []
    for is_fixed, title in ((True, "fixed, whether or not anybody asks"), (False, "variable")):
        lines = [line for line in ours.bill.lines if line.is_fixed is is_fixed]
        usd = float(sum(line.usd_exact for line in lines) * repeats)
        rows.append((title, "", f"{usd:.2f}"))
        rows += [(f"  {line.text}", f"{float(line.usd_exact * repeats):.2f}", "") for line in lines]
    return ("item", "USD a month", "sum"), rows


def system_rows(advice: Advice) -> Table:
    """Return what one could buy, best net value first, then what is no choice."""
    header = ("system", "USD a month", "memory %", "mean ms", "net USD a month", "note")
    systems = sorted(
        [advice.ours.system, *advice.others], key=lambda s: (bool(s.why_not), -s.gain.net_usd(advice.value))
    )
    return header, [_system_cells(system, advice) for system in systems]


def break_even_lines(advice: Advice) -> list[str]:
    """Return when Burstcache is cheaper, and from which value of latency on it pays."""
    lines = ["Break-even:"]
    lines += [f"- {_frequency_text(system, advice)}" for system in rivals(advice)]
    for what, found in (("hit", advice.per_hit), ("millisecond saved", advice.per_ms)):
        lines.append(f"- {_break_even_text(what, found)}")
    return lines


def rivals(advice: Advice) -> list[System]:
    """Return the best of each kind of what one could buy besides S3 alone: more would say the same again."""
    best: dict[str, System] = {}
    for system in sorted(choices(advice.others), key=lambda s: (-s.gain.net_usd(advice.value), s.usd_per_month)):
        best.setdefault(system.name.partition(":")[0], system)
    del best["s3-only"]  # it is always cheaper
    return list(best.values())


def _frequency_text(system: System, advice: Advice) -> str:
    at, demand = system.cheaper_at, advice.workload.demand
    assert at is not None, "only this system is not compared with itself"
    if at.most == 0:
        return f"{system.name} is cheaper, even if this log comes once a month."
    if at.most is None and at.least <= 1:
        return f"{system.name} is dearer, however often this log comes."
    if at.most is None:
        return f"{system.name}: Burstcache is cheaper if this log comes {at.least:,} times a month or more often."
    ends = f"; from {at.most + 1:,} times on {system.name} is"
    if at.most * (demand.last_us - demand.first_us) > at.window_h * US_PER_H:
        ends = ", which is more often than it fits"
    return f"{system.name}: Burstcache is cheaper if this log comes up to {_count(at.most, 'time')} a month{ends}."


def _why(advice: Advice) -> str:
    ours, winner = advice.ours.system, advice.winner
    bills = f"{winner.usd_per_month:,.2f} USD a month against {ours.usd_per_month:,.2f}"
    cheaper = winner.usd_per_month < ours.usd_per_month
    if winner.name == "s3-only":
        return f"S3 alone is cheaper, {bills}{', and the hits are not worth the difference' * advice.value.is_known}."
    name = winner.name if winner.name == "cloudfront" else f"{winner.name} ({winner.note})"
    shares = f"{winner.in_memory_pct:.1f} % from memory against {ours.in_memory_pct:.1f} %"
    if winner.name == "cloudfront":
        shares += " (if its clients may share the objects; otherwise say --without cloudfront)"
    return f"{name} is {'cheaper' if cheaper else 'worth more'}: {bills}, {shares}."


def _pays_lines(advice: Advice) -> list[str]:
    """Return what the answer would be if latency were worth something."""
    over_s3, best = advice.per_hit.over_s3_usd, advice.per_hit.best_buy
    if over_s3 is None:
        return ["Nothing of this log would be answered from memory."]
    lines = [f"It saves time, not money: it is worth more than S3 alone if a hit is worth {_usd(over_s3)} or more."]
    if best is None:
        lines.append(f"At no value of a hit is it the best buy{_rival_text(advice)}")
    else:
        up_to = "" if best.to_usd is None else f" and at most {_usd(best.to_usd)}"
        lines.append(f"It is the best buy if a hit is worth at least {_usd(best.from_usd)}{up_to}.")
    return lines


def _rival_text(advice: Advice) -> str:
    better = [
        system
        for system in choices(advice.others)
        if system.in_memory_pct >= advice.ours.system.in_memory_pct and system.name != "s3-only"
    ]
    if not better:
        return "."
    rival = min(better, key=lambda system: system.usd_per_month)
    return f": {rival.name} answers {rival.in_memory_pct:.1f} % from memory for {rival.usd_per_month:,.2f} USD a month."


def _break_even_text(what: str, found: BreakEvenValue) -> str:
    if found.over_s3_usd is None:
        return f"Per {what}: it never pays, it makes nothing faster."
    text = f"Per {what}: worth more than S3 alone from {_usd(found.over_s3_usd)} on"
    if found.best_buy is None:
        return f"{text}; never the best buy."
    span = f"from {_usd(found.best_buy.from_usd)}"
    if found.best_buy.to_usd is not None:
        span += f" to {_usd(found.best_buy.to_usd)}"
    return f"{text}; the best buy of all {span}."


def deploy_text(advice: Advice) -> str:
    """Return what to do with the parameters."""
    start = "Put this" if advice.deploys else "To deploy it all the same, put this"
    return f"{start} into samconfig.toml (and your OriginBucketName), then `sam build && sam deploy`:"


def _system_cells(system: System, advice: Advice) -> tuple[str, ...]:
    return (
        system.name,
        f"{system.usd_per_month:,.2f}",
        f"{system.in_memory_pct:.1f}",
        f"{system.mean_ms:.1f}",
        f"{system.gain.net_usd(advice.value):,.2f}",
        f"no choice: {system.why_not}" if system.why_not else system.note,
    )


def _tiers(advice: Advice) -> list[tuple[int, str]]:
    result = advice.ours.result
    return [(result.n_lambda, "cache functions"), (result.n_redis, "Redis")]


def _latency_cells(latency: LatencySummary) -> tuple[str, ...]:
    values = (latency.mean_ms, latency.p50_ms, latency.p90_ms, latency.p95_ms, latency.p99_ms)
    return tuple(f"{value:.1f}" for value in values)


def _usd(value: float) -> str:
    """Return a small amount as a person reads it: per one, and per million."""
    return f"{value:.3g} USD ({value * 1e6:,.3g} per million)"


def _amount(value: float) -> str:
    return f"{value:,.0f}" if value >= 1_000 else f"{value:.4g}"


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'s' * (number != 1)}"
