"""The change log of the digest: what its entries say, and which of them are cut."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from burstcache.core.change_log import (
    KEPT_BYTES,
    LONGEST_BYTES,
    MOST_BYTES,
    NEEDED_S,
    changes_in,
    encode_entry,
    entries_to_cut,
)

_PREFIXES = st.integers(0, 2**48 - 1).map("{:012x}".format)
_BATCHES = st.lists(st.lists(_PREFIXES, min_size=1, max_size=10), max_size=40)


@given(_BATCHES)
def test_changes_are_read_back_in_order(batches: list[list[str]]) -> None:
    log = [encode_entry(batch, now_us=at * 1_000_000) for at, batch in enumerate(batches)]

    assert changes_in(log) == [prefix for batch in batches for prefix in batch]


def _after(seconds: float, *, appends_per_s: int, changes: int) -> list[list[bytes]]:
    """Return the logs after each append, cut as its writer cuts them."""
    log: list[bytes] = []
    logs = []
    for at in range(round(seconds * appends_per_s)):
        now_us = 1_000_000_000 + at * 1_000_000 // appends_per_s
        log = [*log, encode_entry(["a" * 12] * changes, now_us=now_us)]
        logs.append(log)
        log = log[entries_to_cut(log, now_us=now_us) :]
    return logs


def _bytes(log: Sequence[bytes]) -> int:
    return sum(len(entry) + 1 for entry in log)


@pytest.mark.parametrize(("appends_per_s", "changes"), [(1, 1), (10, 1), (2, 10)])
def test_a_log_of_few_changes_costs_one_write_unit(appends_per_s: int, changes: int) -> None:
    logs = _after(120, appends_per_s=appends_per_s, changes=changes)

    assert max(map(_bytes, logs)) <= MOST_BYTES + 12 * changes
    assert min(map(_bytes, logs[-len(logs) // 2 :])) > KEPT_BYTES  # a reader that looks seldom has a chance, too


@pytest.mark.parametrize(("appends_per_s", "changes"), [(50, 1), (120, 1), (20, 10), (50, 10), (60, 10)])
def test_what_a_reader_needs_stays_in_the_log(appends_per_s: int, changes: int) -> None:
    logs = _after(30, appends_per_s=appends_per_s, changes=changes)

    in_2_s = 2 * appends_per_s
    assert min(len(log) for log in logs[in_2_s:]) >= in_2_s


@pytest.mark.parametrize(
    ("appends_per_s", "changes"), [(100, 1), (200, 1), (400, 1), (900, 1), (100, 10), (200, 10), (400, 10)]
)
def test_however_much_is_written_the_item_takes_the_writes(appends_per_s: int, changes: int) -> None:
    logs = _after(10, appends_per_s=appends_per_s, changes=changes)

    assert max(map(_bytes, logs)) <= 1.3 * LONGEST_BYTES
    units_per_s = [sum(_bytes(log) / 1024 for log in logs[at : at + appends_per_s]) for at in (0, len(logs) // 2)]
    assert max(units_per_s) < 1_000


@given(_BATCHES, st.integers(0, 30))
def test_only_entries_that_no_reader_needs_are_cut_from_a_log_that_may_be_so_long(
    batches: list[list[str]], apart_s: int
) -> None:
    log = [encode_entry(batch, now_us=at * apart_s * 1_000_000) for at, batch in enumerate(batches)]
    now_us = len(batches) * apart_s * 1_000_000

    cut = entries_to_cut(log, now_us=now_us)

    young = (now_us // 1_000_000 - NEEDED_S) * 100
    assert all(int.from_bytes(entry[:5]) <= young for entry in log[:cut]) or _bytes(log) > MOST_BYTES
    assert _bytes(log) > MOST_BYTES or cut == 0


def test_clocks_that_differ_cut_nothing_young() -> None:
    log = [encode_entry(["a" * 12], now_us=(5 + at) * 1_000_000) for at in range(100)]

    assert entries_to_cut(log, now_us=1_000_000) == 0
