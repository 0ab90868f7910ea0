"""The commands that pause and resume a stack, and what others say of a pause."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from burstcache.core.rows import Pause
from burstcache_cli import operate
from burstcache_cli.pause_text import pause_text
from support.aws import TABLE, clients, make_stack, mocked_aws


@pytest.fixture
def stack() -> Iterator[Any]:
    """A stack that has a table."""
    with mocked_aws():
        make_stack()
        yield SimpleNamespace(output={"TableName": TABLE}.__getitem__, clients=clients())


def test_a_pause_begins_and_ends(stack: Any) -> None:
    begun, ended = operate.begin_pause(stack, "too dear"), operate.end_pause(stack)

    assert begun.text == "paused: nodes stop within five minutes, cache functions within fifteen"
    assert begun.answer["reason"] == "too dear"
    assert (ended.text, ended.answer) == ("resumed", {"was_paused": True})


def test_a_stack_that_is_not_paused_need_not_be_resumed(stack: Any) -> None:
    ended = operate.end_pause(stack)

    assert (ended.text, ended.is_success) == ("the stack is not paused", True)


def test_a_pause_says_why_until_when_and_what_ends_it() -> None:
    since_us = 1_785_542_400_000_000

    by_budget, by_hand = Pause("spent", since_us, since_us + 86_400_000_000), Pause("by hand", since_us)

    assert pause_text(by_budget) == (
        "paused since 2026-08-01T00:00:00Z until 2026-08-02T00:00:00Z: spent; `burstcache resume` ends that"
    )
    assert pause_text(by_hand) == "paused since 2026-08-01T00:00:00Z: by hand; `burstcache resume` ends that"
