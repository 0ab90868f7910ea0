"""The log of one key: states of the thesis's scheduler, derived from the key and its node."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class State(StrEnum):
    """The states of the thesis's scheduler (figure 4.5)."""

    S3 = "S3"
    LAMBDA = "LAMBDA"
    RESTRICTED_LAMBDA = "RESTRICTEDLAMBDA"  # Redis is still stopping and cannot boot
    REDIS_BOOTUP = "REDISBOOTUP"
    REDIS_RUNNING = "REDISRUNNING"
    REDIS_SHUTDOWN = "REDISSHUTDOWN"  # S3 serves while Redis is stopping


@dataclass(slots=True)
class Log:
    """The events of one key: rows of time [us], state and event. `->` marks the entry into a state."""

    rows: list[tuple[int, str, str]] = field(default_factory=list)
    state: State = State.S3

    def enter(self, at_us: int, state: State) -> None:
        """Add a row if the key's state changes."""
        if state is not self.state:
            self.state = state
            self.note(at_us, state, "->")

    def note(self, at_us: int, state: State, event: str) -> None:
        """Add an event with its state."""
        self.rows.append((at_us, state, event))
