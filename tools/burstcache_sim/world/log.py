"""The log of one key: the states of the thesis's scheduler, read off the key and its node."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class State(StrEnum):
    """The states of the thesis's scheduler (figure 4.5)."""

    S3 = "S3"
    LAMBDA = "LAMBDA"
    RESTRICTED_LAMBDA = "RESTRICTEDLAMBDA"  # Redis still stops: it cannot boot
    REDIS_BOOTUP = "REDISBOOTUP"
    REDIS_RUNNING = "REDISRUNNING"
    REDIS_SHUTDOWN = "REDISSHUTDOWN"  # S3 serves while Redis stops


@dataclass(slots=True)
class Log:
    """What happened to one key: rows of time [us], state, event; `->` on entering a state."""

    rows: list[tuple[int, str, str]] = field(default_factory=list)
    state: State = State.S3

    def enter(self, at_us: int, state: State) -> None:
        """Note a state if the key was in another one."""
        if state is not self.state:
            self.state = state
            self.note(at_us, state, "->")

    def note(self, at_us: int, state: State, what: str) -> None:
        """Note an event and the state that it happened in."""
        self.rows.append((at_us, state, what))
