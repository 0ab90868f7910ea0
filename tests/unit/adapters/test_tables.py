"""A phase is written only after one that may come before it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import get_args

import pytest

from burstcache.adapters.key_table import KeyTable
from burstcache.adapters.node_table import NodeTable
from burstcache.core.errors import IllegalPhaseError
from burstcache.core.phases import KEY_PHASES_BEFORE, NODE_PHASES_BEFORE, KeyPhase, NodePhase
from burstcache.core.table import KeyColumns, NodeRow
from support.aws import TABLE, clients, make_stack, mocked_aws, put_row
from support.clock import ManualClock

_KEY_PHASES: tuple[KeyPhase, ...] = get_args(KeyPhase)
_NODE_PHASES: tuple[NodePhase, ...] = get_args(NodePhase)


@pytest.fixture(scope="module", autouse=True)
def stack() -> Iterator[None]:
    with mocked_aws():
        make_stack()
        yield


@pytest.mark.parametrize("then", _KEY_PHASES)
def test_key_takes_a_phase_only_after_one_that_may_come_before(then: KeyPhase) -> None:
    keys = KeyTable(TABLE, clients().dynamodb, ManualClock(1e9))

    for before in _KEY_PHASES:
        put_row("KEY#h", "ROUTE", {"key": "k", "phase": before, "epoch": 7})
        allowed = keys.update("h", epoch=7, set_=KeyColumns(phase=then)) if KEY_PHASES_BEFORE[then] else None
        assert (allowed is not None) is (before in KEY_PHASES_BEFORE[then]), before


@pytest.mark.parametrize("then", _NODE_PHASES)
def test_node_takes_a_phase_only_after_one_that_may_come_before(then: NodePhase) -> None:
    nodes = NodeTable(TABLE, clients().dynamodb)

    for before in _NODE_PHASES:
        put_row("NODE#n", "NODE", {"phase": before, "generation": 7, "part": 1})
        seen = NodeRow("n", before, 7, 1)
        if before in NODE_PHASES_BEFORE[then]:
            assert nodes.change(seen, phase=then) == NodeRow("n", then, 7, 1)
        else:
            with pytest.raises(IllegalPhaseError, match=f"{then} may not follow {before}"):
                nodes.change(seen, phase=then)


def test_write_of_another_life_changes_nothing() -> None:
    keys = KeyTable(TABLE, clients().dynamodb, ManualClock(1e9))
    put_row("KEY#h", "ROUTE", {"key": "k", "phase": "lambda", "epoch": 7})

    assert keys.update("h", epoch=6, set_=KeyColumns(tier="lambda")) is None
    row = keys.read("h")
    assert row is not None
    assert row.tier == ""
