"""A phase is written only after one that may come before it."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import get_args

import pytest

from burstcache.adapters.hot_keys import HotKeys
from burstcache.adapters.items import to_values
from burstcache.adapters.key_table import KeyTable
from burstcache.adapters.node_table import NodeTable
from burstcache.core.errors import IllegalPhaseError
from burstcache.core.phases import KEY_PHASES_BEFORE, NODE_PHASES_BEFORE, KeyPhase, NodePhase
from burstcache.core.policy import RecordedRequest
from burstcache.core.rows import KeyRow, NodeRow
from burstcache.core.table import HOT_ITEM, KeyColumns
from support.aws import TABLE, clients, make_stack, mocked_aws, put_row
from support.clock import ManualClock

_KEY_PHASES: tuple[KeyPhase, ...] = get_args(KeyPhase)
_NODE_PHASES: tuple[NodePhase, ...] = get_args(NodePhase)

_NOW_S, _REQUEST = 10**9, RecordedRequest(1, "r")


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
    nodes = NodeTable(TABLE, clients().dynamodb, ManualClock(1e9))

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


@pytest.fixture
def keys() -> KeyTable:
    return KeyTable(TABLE, clients().dynamodb, ManualClock(_NOW_S))


def _expires_in_s(hash_: str) -> int:
    key = {"pk": {"S": f"KEY#{hash_}"}, "sk": {"S": "ROUTE"}}
    return int(clients().dynamodb.get_item(TableName=TABLE, Key=key)["Item"]["expires_at"]["N"]) - _NOW_S


@pytest.mark.parametrize(("within_s", "expected_s"), [(10, 3600), (7200, 7200)])
def test_row_of_a_key_that_was_never_hot_is_kept_for_as_long_as_its_requests_count(
    keys: KeyTable, within_s: int, expected_s: int
) -> None:
    keys.append(f"cold {within_s}", "k", [_REQUEST], etag="", size_bytes=1, keep=2, within_us=within_s * 10**6)

    assert _expires_in_s(f"cold {within_s}") == expected_s


def test_row_of_a_key_whose_use_is_learned_is_kept_for_a_day(keys: KeyTable) -> None:
    keys.learn(KeyRow("learned", "k"), b"use", _REQUEST, etag="", size_bytes=1)

    assert _expires_in_s("learned") == 24 * 3600


@pytest.mark.parametrize("then", ["append", "learn"])
def test_row_of_a_key_that_was_hot_outlives_its_longest_phase_whatever_is_asked_for_then(
    keys: KeyTable, then: str
) -> None:
    hash_ = f"hot {then}"
    life = KeyRow(hash_, "k", "lambda", 7, deadline_at_us=2**62, trigger=_REQUEST)
    append = functools.partial(keys.append, hash_, "k", [_REQUEST], etag="", size_bytes=1, keep=2, within_us=0)
    append()
    HotKeys(keys, 9, clients().dynamodb, keys.clock).start(life, former_epoch=0, now_us=0)
    started_s = _expires_in_s(hash_)

    if then == "append":
        append()
    else:
        keys.learn(life, b"use", _REQUEST, etag="", size_bytes=1)

    assert started_s == _expires_in_s(hash_) > 30 * 24 * 3600


def test_full_set_of_hot_keys_is_known_for_five_seconds_to_have_no_room_for_other_keys(keys: KeyTable) -> None:
    client, clock = clients().dynamodb, ManualClock(_NOW_S)
    hot = HotKeys(keys, 1, client, clock)

    def start(hash_: str) -> str:
        life = KeyRow(hash_, "k", "lambda", 1, deadline_at_us=2**62, trigger=_REQUEST)
        return hot.start(life, former_epoch=0, now_us=0)

    client.delete_item(TableName=TABLE, Key=to_values(HOT_ITEM))
    for hash_ in ("first", "second"):
        keys.append(hash_, "k", [_REQUEST], etag="", size_bytes=1, keep=2, within_us=0)
    assert start("first") == "started"
    assert not hot.is_full_for("second")

    assert start("second") == "full"
    assert (hot.is_full_for("first"), hot.is_full_for("second")) == (False, True)

    clock.sleep(5)
    assert not hot.is_full_for("second")
    keys.update("first", epoch=1, set_=KeyColumns(phase="s3"))
    assert start("second") == "started"
