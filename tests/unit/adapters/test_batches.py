"""Rows that are read and written many at a time: none is lost, and a table that throttles is given time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from burstcache.adapters.key_table import KeyTable
from burstcache.adapters.use_table import UseTable
from burstcache.core.rows import SeenKey
from support.aws import TABLE, clients, make_stack, mocked_aws, put_row
from support.clock import ManualClock

_NODE = "node-1"


@pytest.fixture
def client() -> Iterator[Any]:
    with mocked_aws():
        make_stack()
        yield clients().dynamodb


def _half(call: Callable[..., Any], undone: str, *, times: int) -> Callable[..., Any]:
    """Have a call do half of what it is asked for, and name the other half, as DynamoDB does when it throttles."""
    left = times

    def half(RequestItems: dict[str, Any]) -> Any:
        nonlocal left
        if not left:
            return call(RequestItems=RequestItems)
        left -= 1
        asked = RequestItems[TABLE]
        if isinstance(asked, list):
            done, rest = asked[::2], asked[1::2]
            return call(RequestItems={TABLE: done}) | {undone: {TABLE: rest} if rest else {}}
        done, rest = asked["Keys"][::2], asked["Keys"][1::2]
        return call(RequestItems={TABLE: asked | {"Keys": done}}) | {undone: {TABLE: asked | {"Keys": rest}}}

    return half


def test_rows_that_are_left_out_are_read_after_pauses_that_grow(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    names = {f"h{number}" for number in range(40)}
    for name in names:
        put_row(f"KEY#{name}", "ROUTE", {"key": name, "phase": "s3", "epoch": 1})
    monkeypatch.setattr(client, "batch_get_item", _half(client.batch_get_item, "UnprocessedKeys", times=3))
    clock = ManualClock(0.0)

    assert KeyTable(TABLE, client, clock).read_many(names).keys() == names
    assert clock.now_s == pytest.approx(0.05 + 0.1 + 0.2)


def test_rows_that_are_not_written_at_first_are_written_later(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = [SeenKey(f"h{number}", "k", 1, 1_000_000) for number in range(40)]
    monkeypatch.setattr(client, "batch_write_item", _half(client.batch_write_item, "UnprocessedItems", times=2))
    clock = ManualClock(0.0)
    uses = UseTable(TABLE, client, clock)

    uses.note_seen(_NODE, keys)

    assert clock.now_s > 0
    assert uses.seen(_NODE, [key.hash for key in keys]).keys() == {key.hash for key in keys}


def test_nothing_is_asked_for_nothing(client: Any) -> None:
    clock = ManualClock(0.0)

    assert KeyTable("no such table", client, clock).read_many([]) == {}
