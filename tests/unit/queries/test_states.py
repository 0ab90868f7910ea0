"""The states that queries name are states of the machines."""

from __future__ import annotations

from typing import get_args

from burstcache.core.phases import KEY_PHASE_OF_STATE, NODE_PHASE_OF_STATE, KeyPhase, NodePhase
from burstcache.queries.states import KEY_STATES, NODE_STATES, STATE_OF_KEY_PHASE, STATE_OF_NODE_PHASE


def test_every_phase_has_a_state() -> None:
    assert set(STATE_OF_KEY_PHASE) == set(get_args(KeyPhase))
    assert set(STATE_OF_NODE_PHASE) == set(get_args(NodePhase))


def test_state_of_a_live_key_is_the_one_in_which_its_row_has_the_phase() -> None:
    live = {phase: state for phase, state in STATE_OF_KEY_PHASE.items() if phase != "s3"}

    assert {phase: KEY_PHASE_OF_STATE[state] for phase, state in live.items()} == {phase: phase for phase in live}


def test_states_to_wait_for_are_those_of_the_machines_and_those_at_rest() -> None:
    assert set(KEY_STATES) == {"S3", "Guest", *KEY_PHASE_OF_STATE}
    assert set(NODE_STATES) == {"Stopped", *NODE_PHASE_OF_STATE}
    assert set(STATE_OF_KEY_PHASE.values()) <= set(KEY_STATES)
    assert set(STATE_OF_NODE_PHASE.values()) <= set(NODE_STATES)
