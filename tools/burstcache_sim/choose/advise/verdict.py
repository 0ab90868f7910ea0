"""The answer in words: whether to deploy, why, and where the answer changes."""

from __future__ import annotations

from burstcache_sim.choose.advise.advice import Advice, BreakEvenValue
from burstcache_sim.choose.advise.systems import System, choices
from burstcache_sim.units import US_PER_H
from burstcache_terminal.text import count_text, each_usd_text


def verdict_lines(advice: Advice) -> list[str]:
    """Return whether to deploy, and why."""
    ours, winner, value = advice.ours.system, advice.winner, advice.value
    if advice.deploys:
        second = advice.runner_up
        ahead_usd = ours.gain.net_usd(value) - second.gain.net_usd(value)
        cost = f"DEPLOY BURSTCACHE. It costs {ours.usd_per_month:,.2f} USD a month,"
        return [
            f"{cost} and is worth {ours.gain.net_usd(value):,.2f} more than S3 alone after that cost.",
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


def break_even_lines(advice: Advice) -> list[str]:
    """Return when Burstcache is cheaper, and from which value of latency it pays."""
    lines = ["Break-even:"]
    lines += [f"- {_frequency_text(system, advice)}" for system in rivals(advice)]
    for what, found in (("hit", advice.per_hit), ("millisecond saved", advice.per_ms)):
        lines.append(f"- {_break_even_text(what, found)}")
    return lines


def rivals(advice: Advice) -> list[System]:
    """Return the best of each kind of what one could buy other than S3 alone; more would repeat the same."""
    best: dict[str, System] = {}
    for system in sorted(choices(advice.others), key=lambda s: (-s.gain.net_usd(advice.value), s.usd_per_month)):
        best.setdefault(system.name.partition(":")[0], system)
    del best["s3-only"]  # it is always cheaper
    return list(best.values())


def _why(advice: Advice) -> str:
    ours, winner = advice.ours.system, advice.winner
    bills = f"{winner.usd_per_month:,.2f} USD a month against {ours.usd_per_month:,.2f}"
    cheaper = winner.usd_per_month < ours.usd_per_month
    if winner.name == "s3-only":
        return f"S3 alone is cheaper, {bills}{', and the hits are not worth the difference' * advice.value.is_known}."
    name = winner.name if winner.name == "cloudfront" else f"{winner.name} ({winner.note})"
    shares = f"{winner.in_memory_pct:.1f} % from memory against {ours.in_memory_pct:.1f} %"
    if winner.name == "cloudfront":
        shares += " (if its clients may share the objects; otherwise add --without cloudfront)"
    return f"{name} is {'cheaper' if cheaper else 'worth more'}: {bills}, {shares}."


def _pays_lines(advice: Advice) -> list[str]:
    """Return what the answer would be if latency were worth something."""
    over_s3, best = advice.per_hit.over_s3_usd, advice.per_hit.best_buy
    if over_s3 is None:
        return ["Nothing of this log would be answered from memory."]
    lines = [
        f"It saves time, not money: it is worth more than S3 alone if a hit is worth {each_usd_text(over_s3)} or more."
    ]
    if best is None:
        lines.append(f"At no value of a hit is it the best buy{_rival_text(advice)}")
    else:
        up_to = "" if best.to_usd is None else f" and at most {each_usd_text(best.to_usd)}"
        lines.append(f"It is the best buy if a hit is worth at least {each_usd_text(best.from_usd)}{up_to}.")
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


def _frequency_text(system: System, advice: Advice) -> str:
    at, demand = system.cheaper_at, advice.workload.demand
    assert at is not None, "only this system is not compared with itself"
    if at.most == 0:
        return f"{system.name} is cheaper, even if this log comes once a month."
    if at.most is None and at.least <= 1:
        return f"{system.name} costs more, however often this log comes."
    if at.most is None:
        return f"{system.name}: Burstcache is cheaper if this log comes {at.least:,} times a month or more."
    ends = f"; from {at.most + 1:,} times on {system.name} is"
    if at.most * (demand.last_us - demand.first_us) > at.window_h * US_PER_H:
        ends = ", which is more often than it fits"
    return f"{system.name}: Burstcache is cheaper if this log comes up to {count_text(at.most, 'time')} a month{ends}."


def _break_even_text(what: str, found: BreakEvenValue) -> str:
    if found.over_s3_usd is None:
        return f"Per {what}: it never pays, since it makes nothing faster."
    text = f"Per {what}: worth more than S3 alone from {each_usd_text(found.over_s3_usd)}"
    if found.best_buy is None:
        return f"{text}; never the best buy."
    span = f"from {each_usd_text(found.best_buy.from_usd)}"
    if found.best_buy.to_usd is not None:
        span += f" to {each_usd_text(found.best_buy.to_usd)}"
    return f"{text}; the best buy of all {span}."
