"""Failures that faults cause by what they are: which of them, and when."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from chaos.faults import Fault
from chaos.load import Outcome

_SLACK_S = 2.0  # for what a fault leaves behind, and for what makes it


@dataclass(frozen=True, slots=True)
class PastFault:
    """A fault that has befallen a run; instants are since 1970 [s]."""

    fault: Fault
    began_s: float
    ended_s: float
    done: int = 0  # of what `Excuse.one_each` counts

    def meets(self, outcome: Outcome) -> bool:
        """Whether a request was due while it lasted."""
        return self.began_s <= outcome.due_s < self.ended_s

    def is_near(self, outcome: Outcome) -> bool:
        """Whether a request may have met it: it was under way while it lasted, or shortly before or afterwards."""
        answered_s = outcome.due_s + outcome.latency_s
        return self.began_s - _SLACK_S <= answered_s and outcome.due_s <= self.ended_s + _SLACK_S

    def unexcused(self, failed: Iterable[Outcome]) -> list[Outcome]:
        """Return the failures that it has not caused by what it is."""
        rest, excused = [], 0
        excuse = self.fault.excuse
        for each in failed:
            has_room = excuse is not None and (not excuse.one_each or excused < self.done)
            if has_room and self.is_near(each) and self.fault.excuses(each):
                excused += 1
            else:
                rest.append(each)
        return rest


def unexcused(failed: Sequence[Outcome], faults: Iterable[PastFault]) -> Sequence[Outcome]:
    """Return the failures that none of the faults excuses."""
    for past in faults:
        failed = past.unexcused(failed)
    return failed
