"""The states of a member's connection as its hub sees it, and what changes them.

Source:
    Wang 2020, section 3.4 "Reliable Lambda connections", figure 6, with three differences. A PING goes out together
    with the request that it is for, so it costs no round trip. Whatever a member sends shows that it is there, not a
    PONG alone. A request that follows a recent answer needs no PING.
"""

from __future__ import annotations

import enum
from typing import NamedTuple


class Life(enum.Enum):
    """Whether the member runs."""

    SLEEPING = "sleeping"
    ACTIVE = "active"
    MAYBE = "maybe"  # another environment has taken its place to copy it, whose BYE alone counts


class Trust(enum.Enum):
    """How sure that is."""

    UNVALIDATED = "unvalidated"
    VALIDATING = "validating"  # invoked, or sent a PING
    VALIDATED = "validated"


class Reach(NamedTuple):
    """One state."""

    life: Life
    trust: Trust


class Event(enum.Enum):
    """What happens to a connection."""

    REQUEST = "a request is to be sent"
    QUIET = "nothing has been heard for a while"
    HEARD = "the member has connected, answered or sent a PONG"
    SILENT = "it has not, within the limit"
    GONE = "it has sent a BYE, or the connection is lost"
    REPLACED = "another environment of it has connected, to take a copy"


class Action(enum.Enum):
    """What the hub does then."""

    NOTHING = "nothing, or wait"
    INVOKE = "invoke it"
    GREET = "send what waits, or a PING: nothing is wanted any more"
    SEND = "send the request"
    PING = "send a PING and the request"
    GIVE_UP = "let what waits fail"
    HANG_UP = "end the connection, as if it were lost"


ASLEEP = Reach(Life.SLEEPING, Trust.UNVALIDATED)
WAKING = Reach(Life.SLEEPING, Trust.VALIDATING)

TRANSITIONS: dict[tuple[Reach, Event], tuple[Reach, Action]] = {
    (ASLEEP, Event.REQUEST): (WAKING, Action.INVOKE),
    (ASLEEP, Event.HEARD): (Reach(Life.ACTIVE, Trust.VALIDATED), Action.GREET),
    (WAKING, Event.REQUEST): (WAKING, Action.NOTHING),
    (WAKING, Event.HEARD): (Reach(Life.ACTIVE, Trust.VALIDATED), Action.GREET),
    (WAKING, Event.SILENT): (ASLEEP, Action.GIVE_UP),
}
for _life in (Life.ACTIVE, Life.MAYBE):
    _unvalidated, _validating, _validated = (Reach(_life, trust) for trust in Trust)
    TRANSITIONS |= {
        (_validated, Event.REQUEST): (_validated, Action.SEND),
        (_validated, Event.QUIET): (_unvalidated, Action.NOTHING),
        (_unvalidated, Event.REQUEST): (_validating, Action.PING),
        (_unvalidated, Event.HEARD): (_validated, Action.NOTHING),
        (_validating, Event.REQUEST): (_validating, Action.SEND),
        (_validating, Event.HEARD): (_validated, Action.NOTHING),
        (_validating, Event.SILENT): (_validating, Action.HANG_UP),
        (_unvalidated, Event.GONE): (ASLEEP, Action.NOTHING),
        (_validating, Event.GONE): (ASLEEP, Action.NOTHING),
        (_validated, Event.GONE): (ASLEEP, Action.NOTHING),
        (_unvalidated, Event.REPLACED): (Reach(Life.MAYBE, Trust.VALIDATED), Action.GREET),
        (_validating, Event.REPLACED): (Reach(Life.MAYBE, Trust.VALIDATED), Action.GREET),
        (_validated, Event.REPLACED): (Reach(Life.MAYBE, Trust.VALIDATED), Action.GREET),
    }


def after(reach: Reach, event: Event) -> tuple[Reach, Action]:
    """Return the next state and what to do; an event that changes nothing in a state is not in the table."""
    return TRANSITIONS.get((reach, event), (reach, Action.NOTHING))
