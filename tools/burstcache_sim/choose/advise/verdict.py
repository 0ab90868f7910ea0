"""The verdict in words, with its alternatives, its confidence and its sensitivity."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from burstcache.core.node_kinds import node_kind
from burstcache_sim.bill.comparison import OURS
from burstcache_sim.bill.config_items import config_line
from burstcache_sim.bill.static_tiers import memory_bytes_of
from burstcache_sim.choose.advise.advice import Advice, BreakEvenValue
from burstcache_sim.choose.advise.confidence import memory_text
from burstcache_sim.choose.advise.configurations import Choice, reader_memory_text, setup_text
from burstcache_sim.choose.advise.reassessment import FEW_RANGES
from burstcache_sim.choose.advise.systems import System, for_sale, shown_pct
from burstcache_sim.choose.advise.worth import Span
from burstcache_sim.units import US_PER_H
from burstcache_terminal.text import count_text, each_usd_text, number_text, usd_text

_SPOKEN = {"s3-only": "S3 alone", OURS: "the stack"}
_THESIS_STACK = "the stack under the thesis's policy"  # its run determines the break-even frequencies
_LIBRARY = {"reader-memory": "no bound on staleness", "reader-memory-confirmed": "revalidated after 1 s"}
_SLOW_TRANSFER = 2  # a hit is slow if it takes at least this many times as long as its first byte
_MOST_SPANS = 3  # maximum number of spans in a sentence
_SLOWEST_MS = 10_000  # longer mean S3 latencies are implausible


def verdict_lines(advice: Advice) -> list[str]:
    """Return the verdict, its alternatives and its confidence."""
    lines = [_verdict_text(advice)]
    if too_short := advice.confidence.too_short:
        lines = [
            f"TOO SHORT TO SAY: {too_short}. The figures below describe a month of such traffic and are no forecast.",
            f"If every month were like this log: {lines[0]}",
        ]
    parts = (_tie, _staleness, _never_stops, _kinds, _recorded, _others, _unsized_ranges, _sure)
    return [*lines, *(line for part in parts for line in part(advice)), _readers(advice)]


def _verdict_text(advice: Advice) -> str:
    winner = advice.winner
    usd, share = f"{_month_usd_text(winner, advice)} USD a month", _share_text(winner)
    if advice.verdict_if_it_lasts == "deploy":
        return f"DEPLOY {_deployment(advice)}. {usd}, {share}."
    if advice.verdict_if_it_lasts == "use the library":
        return f"USE THE LIBRARY, with nothing to deploy: {_own_memory(winner, advice)}. {usd}, {share}."
    if advice.verdict_if_it_lasts == "keep ranges":
        return f"KEEP RANGES IN MEMORY, with nothing to buy: {_own_memory(winner, advice)}. {usd}, {share}."
    if advice.verdict_if_it_lasts == "s3 alone":
        but = " but a pool" if advice.large and advice.large.net_usd(advice.large.pool) > 0 else ""
        return f"S3 ALONE IS ENOUGH: {usd}. No cache{but} is worth more than it costs."
    return f"BUY {winner.name}: {usd}, {share}."


def _month_usd_text(system: System, advice: Advice) -> str:
    return usd_text(system.free_usd_per_month if advice.free_tiers else system.usd_per_month)


def _tie(advice: Advice) -> list[str]:
    """Name the system with a higher net value that costs a purchase, if the difference is too small to count."""
    best, winner = advice.highest, advice.winner
    if best.name == winner.name:
        return []
    best_usd, usd = (usd_text(one.gain.net_usd(advice.value)) for one in (best, winner))
    simpler = "S3 alone" if winner.name == "s3-only" else "the library"
    return [
        f"A tie: {name_text(best)} has a net value of {best_usd} USD a month against {usd}. Within a cent or 1 %,"
        f" {simpler} wins."
    ]


def _staleness(advice: Advice) -> list[str]:
    """Describe the staleness of the best buy, and the best buy with bounded staleness."""
    bounded, winner = advice.bounded_winner, advice.winner
    if winner.kind == "reader-memory-confirmed":
        return ["Copies older than a second are revalidated with S3."]
    if bounded is winner:
        return []
    is_ours = bounded is advice.ours.system
    instead = _deployment(advice) if is_ours else name_text(bounded)
    instead += f": {_month_usd_text(bounded, advice)} USD"
    if bounded.name != "s3-only":
        instead += f", {_share_text(bounded)}"
    return [
        "After a write it may serve the old object forever. If staleness has to stay within seconds, the best buy is"
        f" {instead}."
    ]


def _kinds(advice: Advice) -> list[str]:
    """Compare the stack's kind of node with the others that were tried."""
    by_kind, ours = advice.by_kind, advice.ours
    others = {kind: one for kind, one in by_kind.items() if kind != node_kind(ours.setup.instance_type)}
    if not ours.setup.nodes or not others:
        return []

    def each_text(choice: Choice) -> str:
        usd, net_usd = _month_usd_text(choice.system, advice), usd_text(choice.system.gain.net_usd(advice.value))
        return f"{choice.setup.instance_type} costs {usd} USD, {_share_text(choice.system)}, net value {net_usd} USD"

    best = "; ".join(f"the best stack on {kind}, {each_text(one)}" for kind, one in sorted(others.items()))
    return [f"Kind of node: {each_text(ours)}; {best}."]


def _recorded(advice: Advice) -> list[str]:
    """Name AWS Config's part of the stack's bill, and the way to avoid it."""
    line = config_line(advice.ours.system.month)
    if line is None:
        return []
    count = count_text(round(line.quantity), "configuration item")
    return [
        f"AWS Config: {usd_text(line.usd)} USD of the stack's bill are {count} of its nodes' runs, an estimate. Exclude"
        " EC2's types from the recorder, or record them daily (docs/operate/costs.md)."
    ]


def _others(advice: Advice) -> list[str]:
    """Return the alternatives to the best buy.

    If the stack wins, the alternative is the runner-up. Otherwise, the alternatives are the best stack and the cheapest
    system with at least as many hits.
    """
    ours, value = advice.ours.system, advice.value
    if advice.deploys:
        second = advice.runner_up
        net_usd = f"net value {usd_text(second.gain.net_usd(value))} USD against {usd_text(ours.gain.net_usd(value))}"
        return [f"Next best: {name_text(second)}, {net_usd}."]
    lines = []
    if not shown_pct(ours.in_memory_pct):
        lines.append("No stack answers a request without S3.")
    elif advice.bounded_winner is not ours:
        usd = f"{_month_usd_text(ours, advice)} USD, {_share_text(ours)}"
        lines.append(f"The best stack is one {_deployment(advice).removeprefix('the stack ')}, at {usd}.")
    cheapest = _cheapest(advice)
    if cheapest is not None and cheapest is not advice.winner and shown_pct(ours.in_memory_pct):
        alternative = f"{name_text(cheapest)}, {_month_usd_text(cheapest, advice)} USD"
        lines.append(f"The cheapest system with at least as many hits as the stack: {alternative}.")
    return lines


def _sure(advice: Advice) -> list[str]:
    """Return the hit ratio in the month and in the log's second half, with the forecast error."""
    confidence = advice.confidence
    share = confidence.shares[0]
    if confidence.is_assumed:
        return [_unknown_ranges(advice)]
    if share.measured_pct is None:
        return []
    cache = memory_text(share.memory_bytes)
    measured = f"Check: filled by the log's first half, it answered {share.measured_pct:.1f} % of the second half."
    if share.sure_points is None:
        return [
            f"How sure: every repetition reads the same objects (--same-objects), and {cache} answers"
            f" {share.month_pct:.1f} % of the month's requests. {measured}"
        ]
    count = round(confidence.new_objects)
    new = count_text(count, "new object") if count else "no new object"
    return [
        f"How sure: each repetition brings {new}, and {cache} answers {share.month_pct:.1f} % of the month's"
        f" requests. {measured} Error of the hit ratio: +/- {share.sure_points:.1f} points, from forecasts of each part"
        f" of the log by the part before it. {_money_of(share.sure_points, advice)}"
    ]


def _unknown_ranges(advice: Advice) -> str:
    """Return the assumption about ranges without an offset, with the hit ratios under it and under its opposite."""
    trace, bracket_pct = advice.workload.trace, advice.confidence.bracket_pct
    read = f"{trace.assumed_ranges:,} of {count_text(len(trace), 'request')} read parts of objects"
    why = f"because the log has no ranges: {read}, and equal lengths count as the same part, which overstates hits."
    text = f"How sure: unknown, {why}"
    if bracket_pct is not None:
        text = f"How sure: {bracket_pct[0]:.1f} to {bracket_pct[1]:.1f} % of the requests, {why}"
        text += " The lower figure has the parts follow each other through their object."
    return f"{text} Bring a log that has them, such as CSV or JSON with the Range header (--fields range=NAME)."


def _money_of(points: float, advice: Advice) -> str:
    """Return the money that an error of the hit ratio stands for."""
    workload, usd = advice.workload, (usd_text(usd) for usd in net_range_usd(advice, points))
    if advice.value.is_known and advice.winner.in_memory_pct:
        return f"The net value is between {' and '.join(usd)} USD a month. That of other caches moves with it."
    s3_usd = workload.demand.requests * float(workload.repeats_per_month) * float(workload.prices.usd("s3-get"))
    return f"That is {usd_text(points / 100 * s3_usd)} USD of S3 GETs a month."


def net_range_usd(advice: Advice, points: float) -> tuple[float, float]:
    """Return the net value of the verdict at the lowest and the highest hit ratio within an error [USD a month]."""
    workload, value, pct = advice.workload, advice.value, advice.winner.in_memory_pct
    worth_usd = advice.clock.usd_per_hit(usd_per_hit=value.usd_per_hit, usd_per_ms=value.usd_per_ms)
    usd_per_hit = float(worth_usd + workload.prices.usd("s3-get"))
    usd_per_point = workload.demand.requests * float(workload.repeats_per_month) / 100 * usd_per_hit
    return (
        advice.net_usd - min(points, pct) * usd_per_point,
        advice.net_usd + min(points, 100 - pct) * usd_per_point,
    )


def _unsized_ranges(advice: Advice) -> list[str]:
    """Return the assumption about objects with ranges but no size in the log, if it may change the verdict."""
    trace = advice.workload.trace
    is_seldom = trace.unsized_ranges < FEW_RANGES * len(trace)
    if is_seldom or advice.verdict_if_it_lasts not in ("use the library", "deploy"):
        return []
    return [
        f"{count_text(trace.unsized_ranges, 'request')} read ranges of objects whose size the log does"
        " not show. Each object counts as large as its ranges reach. Above 8 MiB the library keeps slices of 256 KiB,"
        " so if these objects are larger, their ranges take more memory (--fields object=NAME)."
    ]


def _readers(advice: Advice) -> str:
    setup = advice.workload.setup
    where = "in AWS" if setup.readers == "aws" else "on the internet"
    where += ", in the bucket's region (--readers)" if setup.readers == "aws" else " (--readers)"
    count = setup.reader_processes
    public = ""
    if setup.readers == "aws" and advice.workload.trace.has_public_clients:
        public = " Most addresses at the start of the log are public: --readers internet, if clients are outside AWS."
    if count == 1:
        return f"Assumes one long-lived reader process (--reader-processes) {where}.{public}"
    processes = f"{count:,} long-lived reader processes that share the requests"
    return f"Assumes {processes} (--reader-processes), {where}.{public}"


def change_lines(advice: Advice) -> list[str]:
    """Return the verdict's sensitivity to hit value, S3's latency and free tiers."""
    found = advice.sensitivity
    unit, spans, usd, per = "hit", found.by_hit_value, advice.value.usd_per_hit, advice.per_hit
    if advice.value.usd_per_ms:
        unit, spans, usd, per = "millisecond saved", found.by_ms_value, advice.value.usd_per_ms, advice.per_ms
    lines = [f"Value of a {unit}: {_spans_text(spans, usd, _per_million_text)}."]
    if all(span.name != advice.ours.system.name for span in spans):
        over_s3 = per.over_s3_usd
        beats = "" if over_s3 is None else f" The stack is better than S3 alone {_from(over_s3)}, but s"
        lines[0] += f"{beats or ' S'}omething else is always better than the stack."
    if found.by_s3_ms:
        assumed_ms = advice.clock.tiers.s3_ms
        likely = [span for span in found.by_s3_ms if span.start < _SLOWEST_MS]
        by_ms = _spans_text(likely, assumed_ms, lambda ms: f"{number_text(ms, digits=3)} ms")
        scaled = ", with the value of a hit in proportion" if advice.value.usd_per_hit else ""
        lines.append(f"Latency of S3 ({assumed_ms:g} ms to the first byte assumed){scaled}: {by_ms}.")
    lines += _by_processes(advice)
    if advice.verdict_differs:
        other, free = advice.other_column_winner, "free tiers and CloudFront's flat-rate plans"
        name, usd = name_text(other), other.usd_per_month if advice.free_tiers else other.free_usd_per_month
        start, more = ("Without", "") if advice.free_tiers else ("With", " (--free-tiers decides by them)")
        lines.append(f"{start} {free} the best buy is {name}, {usd_text(usd)} USD{more}.")
    return lines


def _by_processes(advice: Advice) -> list[str]:
    """Return the best buy by the number of reader processes, and what readers on the internet may change."""
    setup, spans = advice.workload.setup, advice.sensitivity.by_processes
    if setup.readers != "aws":
        return []
    internet = "Readers on the internet: often CloudFront, above all for browsers (--readers internet)."
    if not spans:
        return [internet]
    if len(spans) == 1:
        text = f"{spoken(spans[0].name)} at any number up to 200"
    else:
        text = _spans_text(spans, setup.reader_processes, lambda count: f"{count - 1:,.0f}")
    return [f"Reader processes (--reader-processes {setup.reader_processes} here): {text}.", internet]


def break_even_lines(advice: Advice) -> list[str]:
    """Return break-even frequencies under the thesis's policy, and the lowest values at which the stack pays."""
    rivals = best_of(advice, lambda system: system.latency_class)
    always = [name_text(system) for system in rivals if system.cheaper_at is not None and system.cheaper_at.most == 0]
    lines = [f"Cheaper than {_THESIS_STACK}, even at one repetition a month: {', '.join(always)}."] if always else []
    lines += [_frequency_text(system, advice) for system in rivals if name_text(system) not in always]
    for unit, value in (("hit", advice.per_hit), ("millisecond saved", advice.per_ms)):
        lines.append(_break_even_text(unit, value))
    return lines


def best_of(advice: Advice, group: Callable[[System], str]) -> list[System]:
    """Return the best competitor of each group other than S3 alone, by descending net value."""
    best: dict[str, System] = {}
    for system in by_net_value(for_sale(advice.others), advice):
        best.setdefault(group(system), system)
    return [system for system in best.values() if system.name != "s3-only"]


def by_net_value(systems: Sequence[System], advice: Advice) -> list[System]:
    """Return systems by descending net value, then ascending bill."""
    return sorted(systems, key=lambda system: (-system.gain.net_usd(advice.value), system.usd_per_month))


def name_text(system: System) -> str:
    """Return a system's name for use in a sentence."""
    return spoken(system.name)


def spoken(name: str) -> str:
    """Return a name for use in a sentence."""
    kind, _, of = name.partition(":")
    if kind == "range-memory":
        return f"your own cache of ranges ({of.removesuffix('MB')} MB, no bound on staleness)"
    if kind in _LIBRARY:
        return f"the library alone ({of.removesuffix('MB')} MB, {_LIBRARY[kind]})"
    return _SPOKEN.get(name, name)


def _share_text(system: System) -> str:
    if not system.in_memory_pct:
        return "no request answered without S3"
    return f"{system.in_memory_pct:.1f} % of the requests answered in {_time_text(system)}"


def _time_text(system: System) -> str:
    """Describe a hit's mean latency, and its first-byte latency if the transfer takes at least as long."""
    text = f"{number_text(system.hit_ms, digits=2)} ms"
    if system.hit_ms < _SLOW_TRANSFER * system.first_byte_ms:
        return text
    return f"{text} (first byte in {number_text(system.first_byte_ms, digits=2)} ms)"


def _deployment(advice: Advice) -> str:
    """Describe the best stack: its form, its parts and its policy."""
    ours = advice.ours
    parts = setup_text(ours.setup) + (f", the {ours.policy} policy" if ours.policy else "")
    return f"{ours.form}: {parts}" if ours.setup.nodes or ours.setup.relay != "none" else f"{ours.form}, plus {parts}"


def _own_memory(system: System, advice: Advice) -> str:
    """Describe the memory of a system that needs no other part."""
    memory_mb = memory_bytes_of(system.name.partition(":")[2]) / 1024**2
    return reader_memory_text(memory_mb, advice.workload.setup.reader_processes)


def _never_stops(advice: Advice) -> list[str]:
    if not advice.ours.never_stops:
        return []
    return ["Under this policy its nodes never stop, so your own always-on nodes would do as well."]


def _cheapest(advice: Advice) -> System | None:
    """Return the cheapest system with at least as many hits as the stack, if any."""
    ours = advice.ours.system
    better = [one for one in for_sale(advice.others) if one.gain.hits >= ours.gain.hits and one.name != "s3-only"]
    return min(better, key=lambda system: system.usd_per_month, default=None)


def _spans_text(spans: Sequence[Span], at: float, text_of: Callable[[float], str]) -> str:
    """Describe the best buys in the spans around a value."""
    here = next((i for i, span in enumerate(spans) if span.to is None or at < span.to), len(spans) - 1)
    first = max(0, min(here - 1, len(spans) - _MOST_SPANS))
    shown = spans[first : first + _MOST_SPANS]
    names = [spoken(span.name) for span in shown]
    if len(spans) == 1:
        return f"always {names[0]}"
    parts = [f"others up to {text_of(shown[0].start)}"] if first else []
    parts += [f"{name} up to {text_of(span.to)}" for name, span in zip(names, shown, strict=True) if span.to]
    return f"{', '.join(parts)}, then {names[-1] if shown[-1].to is None else 'others'}"


def _per_million_text(usd: float) -> str:
    """Format a value per million, the unit in which a sentence compares values."""
    return f"{number_text(usd * 1e6, digits=3)} USD per million"


def _frequency_text(system: System, advice: Advice) -> str:
    at, demand, name = system.cheaper_at, advice.workload.demand, name_text(system)
    assert at is not None, "only Burstcache itself has no break-even frequency"
    if at.most is None and at.least <= 1:
        return f"{name} costs more than {_THESIS_STACK} at any number of repetitions."
    if at.most is None:
        return f"{name}: {_THESIS_STACK} is cheaper from {at.least:,} repetitions a month."
    ends = f"; from {at.most + 1:,}, {name} is"
    if at.most * (demand.last_us - demand.first_us) > at.window_h * US_PER_H:
        ends = ", more than a month can hold"
    return f"{name}: {_THESIS_STACK} is cheaper up to {count_text(at.most, 'repetition')} a month{ends}."


def _break_even_text(unit: str, value: BreakEvenValue) -> str:
    if value.over_s3_usd is None:
        return f"Per {unit}: the stack never pays, since it makes nothing faster."
    text = f"Per {unit}: the stack is better than S3 alone {_from(value.over_s3_usd)}"
    if value.best_buy is None:
        return f"{text}, but something else is always better than the stack."
    span = f"from {each_usd_text(value.best_buy.from_usd)}"
    if value.best_buy.to_usd is not None:
        span += f" to {each_usd_text(value.best_buy.to_usd)}"
    return f"{text}, and is the best buy {span}."


def _from(usd: float) -> str:
    return "at any value" if usd <= 0 else f"from {each_usd_text(usd)}"
