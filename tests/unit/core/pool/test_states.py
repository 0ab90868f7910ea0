"""Every transition of a member's connection, and that there is no other."""

from __future__ import annotations

import itertools

import pytest

from burstcache.core.pool.states import (
    ASLEEP,
    TRANSITIONS,
    WAKING,
    Action,
    ConnectionState,
    Event,
    MemberLife,
    Validation,
    after,
)

_ALL = [ConnectionState(life, validation) for life, validation in itertools.product(MemberLife, Validation)]
_NEVER = ConnectionState(MemberLife.SLEEPING, Validation.VALIDATED)  # nothing is sure of a member that sleeps


def _runs(validation: Validation, life: MemberLife = MemberLife.ACTIVE) -> ConnectionState:
    return ConnectionState(life, validation)


_SLEEPING = [
    (ASLEEP, Event.REQUEST, WAKING, Action.INVOKE),
    (ASLEEP, Event.HEARD, _runs(Validation.VALIDATED), Action.GREET),
    (WAKING, Event.REQUEST, WAKING, Action.NOTHING),
    (WAKING, Event.HEARD, _runs(Validation.VALIDATED), Action.GREET),
    (WAKING, Event.SILENT, ASLEEP, Action.GIVE_UP),
]
_RUNNING = [
    (Validation.VALIDATED, Event.REQUEST, Validation.VALIDATED, Action.SEND),
    (Validation.VALIDATED, Event.QUIET, Validation.UNVALIDATED, Action.NOTHING),
    (Validation.UNVALIDATED, Event.REQUEST, Validation.VALIDATING, Action.PING),
    (Validation.UNVALIDATED, Event.HEARD, Validation.VALIDATED, Action.NOTHING),
    (Validation.VALIDATING, Event.REQUEST, Validation.VALIDATING, Action.SEND),
    (Validation.VALIDATING, Event.HEARD, Validation.VALIDATED, Action.NOTHING),
    (Validation.VALIDATING, Event.SILENT, Validation.VALIDATING, Action.HANG_UP),
]
_CASES = [
    *_SLEEPING,
    *(
        (_runs(before, life), event, _runs(then, life), action)
        for life in (MemberLife.ACTIVE, MemberLife.MAYBE)
        for before, event, then, action in _RUNNING
    ),
    *(
        (_runs(validation, life), Event.GONE, ASLEEP, Action.NOTHING)
        for life in (MemberLife.ACTIVE, MemberLife.MAYBE)
        for validation in Validation
    ),
    *(
        (_runs(validation, life), Event.REPLACED, _runs(Validation.VALIDATED, MemberLife.MAYBE), Action.GREET)
        for life in (MemberLife.ACTIVE, MemberLife.MAYBE)
        for validation in Validation
    ),
]


@pytest.mark.parametrize(("before", "event", "then", "action"), _CASES)
def test_a_transition_leads_where_it_should(
    before: ConnectionState, event: Event, then: ConnectionState, action: Action
) -> None:
    assert after(before, event) == (then, action)


def test_there_is_no_other_transition() -> None:
    assert TRANSITIONS.keys() == {(before, event) for before, event, *_ in _CASES}
    others = set(itertools.product(_ALL, Event)) - TRANSITIONS.keys()

    assert {after(reach, event) == (reach, Action.NOTHING) for reach, event in others} == {True}


def test_every_state_but_one_is_reached_from_sleep_and_leads_back() -> None:
    reached = {ASLEEP}
    while more := {then for (before, _), (then, _) in TRANSITIONS.items() if before in reached} - reached:
        reached |= more

    assert reached == set(_ALL) - {_NEVER}
    for reach in reached - {ASLEEP, WAKING}:
        assert after(reach, Event.GONE)[0] == ASLEEP
