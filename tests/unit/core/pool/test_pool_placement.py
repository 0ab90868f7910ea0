"""Placement of slices on members."""

from __future__ import annotations

from collections import Counter

from burstcache.core.pool.placement import holders

_MEMBERS = [f"pool-{number}" for number in range(16)]
_SLICES = [f"slice-{number}".encode() for number in range(500)]


def test_a_slice_has_as_many_holders_as_chunks() -> None:
    for name in _SLICES:
        assert len(set(holders(name, _MEMBERS, 12))) == 12


def test_a_member_more_changes_at_most_one_holder_of_a_slice() -> None:
    changed = [set(holders(s, [*_MEMBERS, "pool-16"], 12)) - set(holders(s, _MEMBERS, 12)) for s in _SLICES]

    assert {len(each) for each in changed} == {0, 1}
    assert 250 < sum(map(len, changed)) < 450  # 12 of 17 slices: 353


def test_the_order_of_the_members_means_nothing() -> None:
    for name in _SLICES[:20]:
        assert holders(name, _MEMBERS[::-1], 12) == holders(name, _MEMBERS, 12)


def test_members_hold_about_as_much_each() -> None:
    held = Counter(member for name in _SLICES for member in holders(name, _MEMBERS, 4))

    assert len(held) == 16
    assert 80 < min(held.values()) <= max(held.values()) < 170  # 125 each
