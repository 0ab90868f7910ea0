"""Reports about one node that all write its use item: what is given up, by the rule for a lost write.

    python -m research.reports_about_a_node

Discrete events over the item's version. Reports arrive at random (Poisson). A writer reads the item, works, and writes
under a condition that holds if nobody has written in between. `retried` reads again after a random pause that doubles,
and gives up after eight attempts, which was the rule before. `pending` is the present rule
(`control.use_scheduler`): the loser adds its report to the item without a condition, and the next writer counts it.
"""

from __future__ import annotations

import argparse
import heapq
import itertools
import random
from dataclasses import dataclass, field
from typing import Literal

from burstcache_terminal.text import table_text

Rule = Literal["retried", "pending"]
RULES: tuple[Rule, ...] = ("retried", "pending")
_ATTEMPTS, _FIRST_PAUSE_S = 8, 0.01
_WRITE_S = 0.005  # from a lost write to the addition that follows


@dataclass(slots=True)
class Outcome:
    """The outcomes of the reports of a run."""

    reports: int = 0
    given_up: int = 0
    reads: int = 0
    writes: int = 0  # lost ones included, since they are billed
    most_pending: int = 0
    delays_s: list[float] = field(default_factory=list)  # until the report is in the item

    @property
    def given_up_share(self) -> float:
        """Share of the reports that were given up."""
        return self.given_up / self.reports


def simulate(rule: Rule, per_s: float, window_s: float, *, length_s: float = 60, seed: int = 1) -> Outcome:
    """Simulate reports about one node.

    Args:
        rule: What a lost write is followed by.
        per_s: Mean rate of reports.
        window_s: Time from a writer's read to its write. It differs by up to a half, since functions do.
        length_s: Time during which reports arrive.
        seed: Seed of all random numbers.
    """
    chance, order, outcome = random.Random(seed), itertools.count(), Outcome()
    # Time, tie-breaker, arrival, attempt, and the version and pending reports as read, or None for a read to come.
    events: list[tuple[float, int, float, int, tuple[int, frozenset[int]] | None]] = []
    additions: set[int] = set()
    now_s = 0.0
    while now_s < length_s:
        now_s += chance.expovariate(per_s)
        heapq.heappush(events, (now_s, next(order), now_s, 0, None))
        outcome.reports += 1
    version, pending = 0, frozenset[int]()
    while events:
        now_s, number, arrived_s, attempt, seen = heapq.heappop(events)
        if number in additions:
            outcome.writes += 1
            pending |= {number}
            outcome.most_pending = max(outcome.most_pending, len(pending))
            outcome.delays_s.append(now_s - arrived_s)
        elif seen is None:
            outcome.reads += 1
            written_s = now_s + window_s * chance.uniform(0.5, 1.5)
            heapq.heappush(events, (written_s, next(order), arrived_s, attempt, (version, pending)))
        else:
            outcome.writes += 1
            if seen[0] == version:
                version, pending = version + 1, pending - seen[1]
                outcome.delays_s.append(now_s - arrived_s)
            elif rule == "pending":
                additions.add(added := next(order))
                heapq.heappush(events, (now_s + _WRITE_S, added, arrived_s, attempt, None))
            elif attempt < _ATTEMPTS - 1:
                again_s = now_s + chance.random() * _FIRST_PAUSE_S * 2**attempt
                heapq.heappush(events, (again_s, next(order), arrived_s, attempt + 1, None))
            else:
                outcome.given_up += 1
    return outcome


def main() -> None:
    """Print a line for each rule, window and rate."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--length-s", type=float, default=60, help="time during which reports arrive [s]")
    given = parser.parse_args()
    header = ("reports/s", "read to write", "rule", "given up", "reads", "writes", "p99 delay", "most pending")
    lines = []
    for window_s, per_s, rule in itertools.product((0.010, 0.025), (10, 25, 50, 100, 200, 400), RULES):
        found = simulate(rule, per_s, window_s, length_s=given.length_s)
        delays_s = sorted(found.delays_s)
        lines.append(
            (
                str(per_s),
                f"{1000 * window_s:.0f} ms",
                rule,
                f"{found.given_up_share:.1%}",
                f"{found.reads / found.reports:.2f}",
                f"{found.writes / found.reports:.2f}",
                f"{1000 * delays_s[len(delays_s) * 99 // 100]:.0f} ms",
                str(found.most_pending),
            )
        )
    print(table_text(header, lines))


if __name__ == "__main__":
    main()
