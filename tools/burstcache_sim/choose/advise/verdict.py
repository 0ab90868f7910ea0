"""The answer in words: what to buy, what else there is, and what would change the answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from burstcache_sim.bill.comparison import OURS
from burstcache_sim.choose.advise.advice import Advice, BreakEvenValue
from burstcache_sim.choose.advise.configurations import setup_text
from burstcache_sim.choose.advise.systems import System, choices
from burstcache_sim.choose.advise.worth import Span
from burstcache_sim.units import US_PER_H
from burstcache_terminal.text import count_text, each_usd_text, number_text, usd_text

_SPOKEN = {"s3-only": "S3 alone", OURS: "Burstcache"}
_MOST_SPANS = 3  # in a sentence
_SLOWEST_MS = 10_000  # S3 never takes longer in the mean


def verdict_lines(advice: Advice) -> list[str]:
    """Return what to buy, and the cheapest alternative."""
    ours, value = advice.ours.system, advice.value
    if advice.deploys:
        first = f"DEPLOY BURSTCACHE. It costs {usd_text(ours.usd_per_month)} USD a month, {_share_text(ours)}."
        second = advice.runner_up
        net_usd = f"net value {usd_text(second.gain.net_usd(value))} USD against {usd_text(ours.gain.net_usd(value))}"
        return [first, _made_of(advice), *_never_stops(advice), f"Next best: {name_text(second)}, {net_usd}."]
    winner = advice.winner
    lines = [
        f"DO NOT DEPLOY BURSTCACHE. The best buy is {name_text(winner)}: {usd_text(winner.usd_per_month)} USD a month"
        f"{'' if winner.name == 's3-only' else f', {_share_text(winner)}'}.",
        f"Burstcache: {usd_text(ours.usd_per_month)} USD, {_share_text(ours)}. {_made_of(advice)}",
        *_never_stops(advice),
        *_bounded(advice),
    ]
    cheapest = _cheapest(advice)
    if cheapest is not None and cheapest is not winner:
        alternative = f"{name_text(cheapest)}, {usd_text(cheapest.usd_per_month)} USD"
        lines.append(f"The cheapest with at least as many hits as Burstcache: {alternative}.")
    return lines


def change_lines(advice: Advice) -> list[str]:
    """Return what would change the verdict: the value of a hit, S3's latency, free tiers."""
    found = advice.sensitivity
    lines = [f"Value of a hit: {_spans_text(found.by_hit_value, advice.value.usd_per_hit, each_usd_text)}."]
    if all(span.name != advice.ours.system.name for span in found.by_hit_value):
        over_s3 = advice.per_hit.over_s3_usd
        worth = "" if over_s3 is None else f" Burstcache is worth more than S3 alone {_from(over_s3)}, but"
        lines[0] += f"{worth} at no value the best buy." if worth else " At no value is it Burstcache."
    if found.by_s3_ms:
        assumed_ms = advice.clock.tiers.s3_ms
        spans = [span for span in found.by_s3_ms if span.start < _SLOWEST_MS]
        by_ms = _spans_text(spans, assumed_ms, lambda ms: f"{number_text(ms, digits=3)} ms")
        instead = ", the value of a hit in proportion" if advice.value.usd_per_hit else ""
        lines.append(f"Latency of S3 ({assumed_ms:g} ms assumed){instead}: {by_ms}.")
    if advice.verdict_differs:
        other, free = advice.other_column_winner, "free tiers and CloudFront's flat-rate plans"
        name, usd = name_text(other), other.usd_per_month if advice.free_tiers else other.free_usd_per_month
        start, more = ("Without", "") if advice.free_tiers else ("With", " (--free-tiers decides by them)")
        lines.append(f"{start} {free} the best buy is {name}, {usd_text(usd)} USD{more}.")
    return lines


def break_even_lines(advice: Advice) -> list[str]:
    """Return how often the log may come for Burstcache to be cheaper, and from which value of latency it pays."""
    rivals = best_of(advice, lambda system: system.latency_class)
    always = [name_text(system) for system in rivals if system.cheaper_at is not None and system.cheaper_at.most == 0]
    lines = [f"Cheaper, even if this log comes once a month: {', '.join(always)}."] if always else []
    lines += [_frequency_text(system, advice) for system in rivals if name_text(system) not in always]
    for what, found in (("hit", advice.per_hit), ("millisecond saved", advice.per_ms)):
        lines.append(_break_even_text(what, found))
    return lines


def best_of(advice: Advice, group: Callable[[System], str]) -> list[System]:
    """Return the best of each group of what one could buy other than S3 alone, best net value first."""
    best: dict[str, System] = {}
    for system in by_net_value(choices(advice.others), advice):
        best.setdefault(group(system), system)
    return [system for system in best.values() if system.name != "s3-only"]


def by_net_value(systems: Sequence[System], advice: Advice) -> list[System]:
    """Return systems, the best net value first, of equals the lower bill."""
    return sorted(systems, key=lambda system: (-system.gain.net_usd(advice.value), system.usd_per_month))


def name_text(system: System) -> str:
    """Return a system's name in a sentence."""
    return _SPOKEN.get(system.name, system.name)


def _share_text(system: System) -> str:
    if not system.in_memory_pct:
        return "no request answered without S3"
    return f"{system.in_memory_pct:.1f} % of the requests answered in {number_text(system.hit_ms, digits=2)} ms"


def _made_of(advice: Advice) -> str:
    ours = advice.ours
    policy = f", the {ours.policy} policy" if ours.policy else ""
    return f"It consists of {setup_text(ours.setup)}{policy}."


def _bounded(advice: Advice) -> list[str]:
    """Return what to buy if answers may not be of any age."""
    winner = advice.bounded_winner
    if winner is advice.winner:
        return []
    what = f"{name_text(winner)}, {usd_text(winner.usd_per_month)} USD"
    return [
        f"After a write {name_text(advice.winner)} may answer with the former object for ever. Where an answer may be"
        f" some seconds old but not of any age, the best buy is {what}."
    ]


def _never_stops(advice: Advice) -> list[str]:
    if not advice.ours.never_stops:
        return []
    return ["The best Burstcache for this log is one that never stops its node: buy the node."]


def _cheapest(advice: Advice) -> System | None:
    """Return the cheapest system with at least our hits; None if there is none."""
    ours = advice.ours.system
    better = [one for one in choices(advice.others) if one.gain.hits >= ours.gain.hits and one.name != "s3-only"]
    return min(better, key=lambda system: system.usd_per_month, default=None)


def _spans_text(spans: Sequence[Span], at: float, text_of: Callable[[float], str]) -> str:
    """Return what is the best buy in the spans around a value."""
    here = next((i for i, span in enumerate(spans) if span.to is None or at < span.to), len(spans) - 1)
    first = max(0, min(here - 1, len(spans) - _MOST_SPANS))
    shown = spans[first : first + _MOST_SPANS]
    names = [_SPOKEN.get(span.name, span.name) for span in shown]
    if len(spans) == 1:
        return f"always {names[0]}"
    parts = [f"others up to {text_of(shown[0].start)}"] if first else []
    parts += [f"{name} up to {text_of(span.to)}" for name, span in zip(names, shown, strict=True) if span.to]
    return f"{', '.join(parts)}, then {names[-1] if shown[-1].to is None else 'others'}"


def _frequency_text(system: System, advice: Advice) -> str:
    at, demand, name = system.cheaper_at, advice.workload.demand, name_text(system)
    assert at is not None, "only this system is not compared with itself"
    if at.most is None and at.least <= 1:
        return f"{name} costs more, however often this log comes."
    if at.most is None:
        return f"{name}: Burstcache is cheaper if this log comes {at.least:,} times a month or more."
    ends = f"; from {at.most + 1:,} times on {name} is"
    if at.most * (demand.last_us - demand.first_us) > at.window_h * US_PER_H:
        ends = ", which is more often than it fits"
    return f"{name}: Burstcache is cheaper if this log comes up to {count_text(at.most, 'time')} a month{ends}."


def _break_even_text(what: str, found: BreakEvenValue) -> str:
    if found.over_s3_usd is None:
        return f"Per {what}: it never pays, since it makes nothing faster."
    text = f"Per {what}: worth more than S3 alone {_from(found.over_s3_usd)}"
    if found.best_buy is None:
        return f"{text}; never the best buy."
    span = f"from {each_usd_text(found.best_buy.from_usd)}"
    if found.best_buy.to_usd is not None:
        span += f" to {each_usd_text(found.best_buy.to_usd)}"
    return f"{text}; the best buy of all {span}."


def _from(usd: float) -> str:
    return "at any value" if usd <= 0 else f"from {each_usd_text(usd)}"
