"""Excuses: the failures that a fault causes by design, and when they count as such."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from chaos.faults import Fault
from chaos.load import Outcome

_SLACK_S = 2.0  # before and after a fault


@dataclass(frozen=True, slots=True)
class PastFault:
    """A fault that was injected into a run; instants are since 1970 [s]."""

    fault: Fault
    began_s: float
    ended_s: float
    done: int = 0  # the count that `Excuse.one_each` names

    def meets(self, outcome: Outcome) -> bool:
        """Return whether a request was due during the fault."""
        return self.began_s <= outcome.due_s < self.ended_s

    def is_near(self, outcome: Outcome) -> bool:
        """Return whether a request may have met the fault: it overlaps the fault or the moments around it."""
        answered_s = outcome.due_s + outcome.latency_s
        return self.began_s - _SLACK_S <= answered_s and outcome.due_s <= self.ended_s + _SLACK_S

    def unexcused(self, failed: Iterable[Outcome]) -> list[Outcome]:
        """Return the failures that the fault does not excuse."""
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
