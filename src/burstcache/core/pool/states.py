"""The states of a member's connection, as its hub sees them, and their transitions.

Source:
    Wang 2020, section 3.4 "Reliable Lambda connections", figure 6, with three differences. A PING is sent together with
    its request, so it costs no round trip. Any frame from a member, not only a PONG, proves that the member is alive. A
    request soon after an answer needs no PING.
"""

from __future__ import annotations

import enum
from typing import NamedTuple


class MemberLife(enum.Enum):
    """A member's activity: whether the member runs."""

    SLEEPING = "sleeping"
    ACTIVE = "active"
    MAYBE = "maybe"  # its replica's environment has connected in its place to copy it, so only the replica's BYE counts


class Validation(enum.Enum):
    """The freshness of the hub's evidence that the member runs."""

    UNVALIDATED = "unvalidated"
    VALIDATING = "validating"  # invoked, or sent a PING
    VALIDATED = "validated"


class ConnectionState(NamedTuple):
    """One state of a connection."""

    life: MemberLife
    validation: Validation


class Event(enum.Enum):
    """An event of a connection."""

    REQUEST = "a request is ready to be sent"
    QUIET = "the member has sent nothing for a while"
    HEARD = "the member has connected, answered or sent a PONG"
    SILENT = "the member has not answered within the limit"
    GONE = "the member has sent a BYE, or the connection is lost"
    REPLACED = "another environment of the member has connected, to become its replica"


class Action(enum.Enum):
    """The hub's reaction to an event."""

    NOTHING = "do nothing, or wait"
    INVOKE = "invoke the member"
    GREET = "send the waiting requests, or a PING if there are none left"
    SEND = "send the request"
    PING = "send a PING and the request"
    GIVE_UP = "fail the waiting requests"
    HANG_UP = "end the connection, as if it were lost"


ASLEEP = ConnectionState(MemberLife.SLEEPING, Validation.UNVALIDATED)
WAKING = ConnectionState(MemberLife.SLEEPING, Validation.VALIDATING)
_CONNECTED = ConnectionState(MemberLife.ACTIVE, Validation.VALIDATED)
_REPLACED = ConnectionState(MemberLife.MAYBE, Validation.VALIDATED)

TRANSITIONS: dict[tuple[ConnectionState, Event], tuple[ConnectionState, Action]] = {
    (ASLEEP, Event.REQUEST): (WAKING, Action.INVOKE),
    (ASLEEP, Event.HEARD): (_CONNECTED, Action.GREET),
    (WAKING, Event.REQUEST): (WAKING, Action.NOTHING),
    (WAKING, Event.HEARD): (_CONNECTED, Action.GREET),
    (WAKING, Event.SILENT): (ASLEEP, Action.GIVE_UP),
}
for _life in (MemberLife.ACTIVE, MemberLife.MAYBE):
    _unvalidated, _validating, _validated = (ConnectionState(_life, validation) for validation in Validation)
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
        (_unvalidated, Event.REPLACED): (_REPLACED, Action.GREET),
        (_validating, Event.REPLACED): (_REPLACED, Action.GREET),
        (_validated, Event.REPLACED): (_REPLACED, Action.GREET),
    }


def after(state: ConnectionState, event: Event) -> tuple[ConnectionState, Action]:
    """Return the next state and the action. The table omits events that change nothing in a state."""
    return TRANSITIONS.get((state, event), (state, Action.NOTHING))
