"""The table's items of nodes that take guests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from burstcache.adapters.use_table import StoredUse, UseTable
from burstcache.core.hazard import Belief
from burstcache.core.node_use import NodeUse, encode
from burstcache.core.rows import SeenKey
from support.aws import TABLE, clients, make_stack, mocked_aws
from support.clock import ManualClock

NODE = "node-1"
USE = NodeUse(last_us=10**15, is_followed=True, part=7, belief=Belief((0.1,) * 18, (1 / 3,) * 18, 5))


@pytest.fixture
def uses() -> Iterator[UseTable]:
    with mocked_aws():
        make_stack()
        yield UseTable(TABLE, clients().dynamodb, ManualClock(1e9))


def test_a_use_comes_back_bit_for_bit(uses: UseTable) -> None:
    assert uses.read(NODE) == StoredUse()

    assert uses.write(NODE, USE, seen=uses.read(NODE), report=b"12345678")

    assert uses.read(NODE) == StoredUse(USE, 1, b"12345678")


def test_of_two_writers_that_saw_the_same_use_one_writes(uses: UseTable) -> None:
    for _ in range(2):
        seen = uses.read(NODE)

        assert uses.write(NODE, USE, seen=seen)
        assert not uses.write(NODE, NodeUse(), seen=seen)


def test_the_newest_reports_are_remembered(uses: UseTable) -> None:
    reports = [index.to_bytes(8, "big") for index in range(40)]
    for report in reports:
        uses.write(NODE, USE, seen=uses.read(NODE), report=report)

    stored = uses.read(NODE)

    assert [stored.has(report) for report in reports] == [False] * 8 + [True] * 32
    assert len(encode(USE)) + len(stored.reports) < 700  # the item is one write unit


def test_a_report_is_not_taken_for_parts_of_two_others(uses: UseTable) -> None:
    stored = StoredUse(USE, 1, b"aaaabbbb" + b"ccccdddd")

    assert not stored.has(b"bbbbcccc")


def test_keys_seen_are_found_by_their_hash(uses: UseTable) -> None:
    keys = [SeenKey(f"{index:032x}", f"key-{index}", index, 10**15) for index in range(130)]
    uses.note_seen(NODE, keys)

    found = uses.seen(NODE, [key.hash for key in keys] + ["f" * 32])

    assert found == {key.hash: key for key in keys}
    assert uses.seen("node-2", [keys[0].hash]) == {}
