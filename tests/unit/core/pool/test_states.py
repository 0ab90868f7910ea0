"""Every transition of a member's connection, and that there is no other."""

from __future__ import annotations

import itertools

import pytest

from burstcache.core.pool.states import ASLEEP, TRANSITIONS, WAKING, Action, Event, Life, Reach, Trust, after

_ALL = [Reach(life, trust) for life, trust in itertools.product(Life, Trust)]
_NEVER = Reach(Life.SLEEPING, Trust.VALIDATED)  # nothing is sure of a member that sleeps


def _runs(trust: Trust, life: Life = Life.ACTIVE) -> Reach:
    return Reach(life, trust)


_SLEEPING = [
    (ASLEEP, Event.REQUEST, WAKING, Action.INVOKE),
    (ASLEEP, Event.HEARD, _runs(Trust.VALIDATED), Action.GREET),
    (WAKING, Event.REQUEST, WAKING, Action.NOTHING),
    (WAKING, Event.HEARD, _runs(Trust.VALIDATED), Action.GREET),
    (WAKING, Event.SILENT, ASLEEP, Action.GIVE_UP),
]
_RUNNING = [
    (Trust.VALIDATED, Event.REQUEST, Trust.VALIDATED, Action.SEND),
    (Trust.VALIDATED, Event.QUIET, Trust.UNVALIDATED, Action.NOTHING),
    (Trust.UNVALIDATED, Event.REQUEST, Trust.VALIDATING, Action.PING),
    (Trust.UNVALIDATED, Event.HEARD, Trust.VALIDATED, Action.NOTHING),
    (Trust.VALIDATING, Event.REQUEST, Trust.VALIDATING, Action.SEND),
    (Trust.VALIDATING, Event.HEARD, Trust.VALIDATED, Action.NOTHING),
    (Trust.VALIDATING, Event.SILENT, Trust.VALIDATING, Action.HANG_UP),
]
_CASES = [
    *_SLEEPING,
    *(
        (_runs(before, life), event, _runs(then, life), action)
        for life in (Life.ACTIVE, Life.MAYBE)
        for before, event, then, action in _RUNNING
    ),
    *(
        (_runs(trust, life), Event.GONE, ASLEEP, Action.NOTHING)
        for life in (Life.ACTIVE, Life.MAYBE)
        for trust in Trust
    ),
    *(
        (_runs(trust, life), Event.REPLACED, _runs(Trust.VALIDATED, Life.MAYBE), Action.GREET)
        for life in (Life.ACTIVE, Life.MAYBE)
        for trust in Trust
    ),
]


@pytest.mark.parametrize(("before", "event", "then", "action"), _CASES)
def test_a_transition_leads_where_it_should(before: Reach, event: Event, then: Reach, action: Action) -> None:
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
