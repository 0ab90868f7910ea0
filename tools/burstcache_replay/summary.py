"""Summary of a replay: sending delays, latencies by tier, and failures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from burstcache_replay.schedule import Outcome
from burstcache_terminal.text import count_text, fixed_text, table_text


@dataclass(frozen=True, slots=True)
class Spread:
    """Percentiles of a duration over many requests [ms]."""

    p50_ms: float
    p90_ms: float
    p99_ms: float
    max_ms: float

    @classmethod
    def of(cls, times_s: Sequence[float]) -> Spread:
        """Return the percentiles of one or more durations."""
        p50, p90, p99, most = np.percentile(np.asarray(times_s), (50, 90, 99, 100), method="higher") * 1e3
        return cls(float(p50), float(p90), float(p99), float(most))


@dataclass(frozen=True, slots=True)
class TierSummary:
    """Responses of one tier."""

    tier: str
    requests: int
    latency: Spread  # from the due time to the response


@dataclass(frozen=True, slots=True)
class Summary:
    """Figures of a whole replay."""

    requests: int
    late: Spread | None  # None if nothing was sent
    tiers: tuple[TierSummary, ...]
    failed: dict[str, int]  # by status or error

    def as_dict(self) -> dict[str, Any]:
        """Return the summary for JSON."""
        return asdict(self)


def is_failed(outcome: Outcome) -> bool:
    """Return whether a request got no response, a throttling error (429) or a server error (5xx)."""
    status = outcome.answer.status
    return status == 0 or status == 429 or status >= 500


def summarise(outcomes: Sequence[Outcome]) -> Summary:
    """Summarise the outcomes of a replay."""
    by_tier: dict[str, list[float]] = {}
    failed: Counter[str] = Counter()
    for outcome in outcomes:
        if is_failed(outcome):
            failed[outcome.answer.error or f"status {outcome.answer.status}"] += 1
        else:
            by_tier.setdefault(outcome.answer.tier or f"status {outcome.answer.status}", []).append(outcome.latency_s)
    tiers = (TierSummary(tier, len(times), Spread.of(times)) for tier, times in sorted(by_tier.items()))
    late = Spread.of([outcome.late_s for outcome in outcomes]) if outcomes else None
    return Summary(len(outcomes), late, tuple(tiers), dict(failed.most_common()))


def summary_text(summary: Summary) -> str:
    """Format a summary as lines of text."""
    lines = []
    if summary.tiers:
        rows = [
            (each.tier, f"{each.requests:,}", f"{100 * each.requests / summary.requests:.2f}", *_texts(each.latency))
            for each in summary.tiers
        ]
        header = ("tier", "requests", "%", "p50 ms", "p90 ms", "p99 ms", "max ms")
        lines += [table_text(header, rows, right=range(1, 7)), ""]
    if summary.late:
        p50, _, p99, most = _texts(summary.late)
        lines.append(f"Sending delay, included in latencies: p50 {p50} ms, p99 {p99} ms, max {most} ms.")
    lines += [f"Failed: {count_text(count, 'request')}: {why}" for why, count in summary.failed.items()]
    return "\n".join(lines or ["No requests were sent."])


def _texts(spread: Spread) -> tuple[str, str, str, str]:
    p50, p90, p99, most = (fixed_text(each, 2) for each in (spread.p50_ms, spread.p90_ms, spread.p99_ms, spread.max_ms))
    return p50, p90, p99, most
